import {findAddresses, sameAddress} from '../addresses.ts';
import {evidenceIn} from './evidence.ts';
import type {Detector, Finding} from './finding.ts';
import {originIn, readListed} from './listed.ts';
import {domainOf, recipientsOf} from './returned-recipient.ts';

const listHead =
	/^[ \t>]{0,8}-{3,}[ \t]?(?:The following addresses? (?:had|have)|Recipients of this delivery)[^\n]{0,80}$/im;
const heading = /^[ \t>]{0,8}-{3,}[ \t]?\w[^\n]{3,80}-{3,}[ \t]*$/m;
const transcriptHead = /^[ \t>]{0,8}-{3,}[ \t]?Transcript of (?:the )?session follows[^\n]{0,20}$/im;

/**
 * Sendmail, version 5 to 8, and those that speak like it: a list of addresses, each with `(reason: …)`, and the transcript of the
 * session, in which the words about one recipient follow his RCPT or begin with his address.
 */
export const readSendmail: Detector = ({said, returned}) => {
	const head = transcriptHead.exec(said);
	const listed = readListed(said, {after: listHead, until: heading});
	if (head === null) {
		return listed;
	}
	const transcript = readTranscript(said.slice(head.index + head[0].length), returned);
	const findings = listed.length > 0 ? listed.map(finding => withTranscript(finding, transcript)) : transcript.findings;
	const bare = findings.length > 0 ? findings : readListed(transcript.common);
	return bare.length > 0 ? bare : hiddenRecipient(said, transcript.common);
};

type Transcript = {readonly findings: Finding[]; readonly common: string};

const talking = /^(?:\.{3} ?)?while talking to /i;
const command = /^>>> ?(\w+)/;
const reply = /^<<< ?/;
const ownLine = /^(?:\d{3}[ -])?(?:\d\.\d{1,3}\.\d{1,3} )?[<"]?([^\s<>"]{1,320})>?"?(?: \((?:e?smtp|local)\))?\.{3} ?/;

function readTranscript(text: string, returned: string): Transcript {
	const texts = new Map<string, string>();
	let common = '';
	let host = '';
	let current: string | null = null;
	for (const line of text.split('\n').map(line => line.trimStart())) {
		const verb = command.exec(line)?.[1]?.toUpperCase();
		if (talking.test(line)) {
			host = line;
			current = null;
		} else if (verb !== undefined) {
			current = verb === 'RCPT' ? (findAddresses(line)[0]?.address ?? null) : null;
			common += current === null ? `\n${host}\n${line}` : '';
		}
		const own = verb !== undefined ? null : ownLine.exec(line.replace(reply, ''))?.[1];
		const about: string | null = own ? addressOf(own, returned) : current;
		if (own && about !== null && /@/.test(about)) {
			current = about;
		}
		if (about === null) {
			common += talking.test(line) || verb !== undefined ? '' : `\n${line}`;
		} else {
			texts.set(about, `${texts.get(about) ?? host}\n${line}`);
		}
	}
	return {findings: [...texts].map(([recipient, text]) => ({recipient, text})), common: common.trim()};
}

/** A local part or a host alone, as old transcripts have them, tells an address of the mail that was returned. */
function addressOf(own: string, returned: string): string | null {
	const address = findAddresses(own)[0]?.address;
	return (
		address ??
		recipientsOf(returned).find(
			one => sameAddress(one.split('@')[0] as string, own) || sameAddress(domainOf(one), own),
		) ??
		null
	);
}

function withTranscript(finding: Finding, {findings, common}: Transcript): Finding {
	const {recipient} = finding;
	const told = findings.find(
		other => recipient !== null && other.recipient !== null && sameAddress(recipient, other.recipient),
	);
	const reason = /\(reason:[^\n]{0,1000}/.exec(finding.text)?.[0];
	const session = evidenceIn(told?.text ?? common);
	const text = reason ?? told?.text ?? `${finding.text}\n${common}`;
	const {phase, host} = session;
	const originalRecipient = finding.originalRecipient ?? originIn(finding.text);
	return {recipient, text, ...(phase && {phase}), ...(host && {host}), ...(originalRecipient && {originalRecipient})};
}

/** What was refused without a word on whom: a file or a program to which an alias led, or the returned mail has to tell. */
function hiddenRecipient(said: string, common: string): Finding[] {
	return common === '' ? [] : [{recipient: originIn(said) ?? null, text: common}];
}
