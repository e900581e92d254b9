import {findAddresses, isSameAddress} from '../addresses-in-text.ts';
import {evidenceIn} from '../reply.ts';
import {domainOf, findRecipients} from './bounce-text.ts';
import {type Detector, type Finding, maxFindings, originIn, readListed, textAfter} from './listed.ts';

const listHead =
	/^[ \t>]{0,8}-{3,}[ \t]?(?:The following addresses? (?:had|have)|Recipients of this delivery)[^\n]{0,80}$/im;
const heading = /^[ \t>]{0,8}-{3,}[ \t]?\w[^\n]{3,80}-{3,}[ \t]*$/m;
const transcriptHead = /^[ \t>]{0,8}-{3,}[ \t]?Transcript of (?:the )?session follows[^\n]{0,20}$/im;

/**
 * Sendmail, versions 5 to 8, and similar: a list of addresses, each with `(reason: …)`, and a transcript of the
 * session. In the transcript, the text about a recipient follows its RCPT or starts with its address.
 */
export const readSendmail: Detector = ({ownText, returned}) => {
	const session = textAfter(ownText, transcriptHead);
	const listed = readListed(ownText, {after: listHead, until: heading});
	if (session === null) {
		return listed;
	}
	const transcript = readTranscript(session, returned);
	const findings =
		listed.length > 0 ? listed.map(finding => withTranscript(finding, transcript)) : transcript.findings;
	const bare = findings.length > 0 ? findings : readListed(transcript.common);
	return bare.length > 0 ? bare : hiddenRecipient(ownText, transcript.common);
};

type Transcript = {readonly findings: Finding[]; readonly common: string};

const connecting = /^(?:\.{3} ?)?while talking to /i;
const sentCommand = /^>>> ?(\w+)/;
const reply = /^<<< ?/;
const ownLine = /^(?:\d{3}[ -])?(?:\d\.\d{1,3}\.\d{1,3} )?[<"]?([^\s<>"]{1,320})>?"?(?: \((?:e?smtp|local)\))?\.{3} ?/;

function readTranscript(text: string, returned: string): Transcript {
	const texts = new Map<string, string>();
	let common = '';
	let host = '';
	let current: string | null = null;
	for (const line of text.split('\n').map(line => line.trimStart())) {
		const verb = sentCommand.exec(line)?.[1]?.toUpperCase();
		if (connecting.test(line)) {
			host = line;
			current = null;
		} else if (verb !== undefined) {
			current = verb === 'RCPT' ? (findAddresses(line)[0]?.address ?? null) : null;
			common += current === null ? `\n${host}\n${line}` : '';
		}
		const named = verb !== undefined ? null : ownLine.exec(line.replace(reply, ''))?.[1];
		const recipient: string | null = named ? findAddress(named, returned) : current;
		if (named && recipient !== null && /@/.test(recipient)) {
			current = recipient;
		}
		if (recipient === null) {
			common += connecting.test(line) || verb !== undefined ? '' : `\n${line}`;
		} else {
			texts.set(recipient, `${texts.get(recipient) ?? host}\n${line}`);
		}
	}
	return {findings: [...texts].map(([recipient, text]) => ({recipient, text})), common: common.trim()};
}

/** Completes a local part or host of an old transcript to the address in the returned message. */
function findAddress(named: string, returned: string): string | null {
	const address = findAddresses(named)[0]?.address;
	return (
		address ??
		findRecipients(returned).find(
			to => isSameAddress(to.split('@')[0] as string, named) || isSameAddress(domainOf(to), named),
		) ??
		null
	);
}

function withTranscript(finding: Finding, {findings, common}: Transcript): Finding {
	const {recipient} = finding;
	const ofRecipient = findings.find(
		other => recipient !== null && other.recipient !== null && isSameAddress(recipient, other.recipient),
	);
	const reason = /\(reason:[^\n]{0,1000}/.exec(finding.text)?.[0];
	const session = evidenceIn(ofRecipient?.text ?? common);
	const text = reason ?? ofRecipient?.text ?? `${finding.text}\n${common}`;
	const {phase, host} = session;
	const originalRecipient = finding.originalRecipient ?? originIn(finding.text);
	return {recipient, text, ...(phase && {phase}), ...(host && {host}), ...(originalRecipient && {originalRecipient})};
}

/** A refusal without a recipient: an alias pointed to a file or program, or only the returned message names it. */
function hiddenRecipient(ownText: string, common: string): Finding[] {
	return common === '' ? [] : [{recipient: originIn(ownText) ?? null, text: common}];
}

const postfix =
	/This is the (?:Postfix|mail system|[\w.-]{1,60}) (?:program )?at host|your message could not be\s{1,4}delivered to one or more (?:recipients|destinations)|Your message could not be delivered for|attached returned message|Postfix program/i;

/** Postfix if its delivery status was lost: `<address> (expanded from <address>): host …[…] said: …`. */
export const readPostfix: Detector = ({ownText}) => {
	const start = postfix.exec(ownText);
	const rest = start === null ? '' : ownText.slice(start.index);
	const first = /^<[^<>\n]{1,320}>/m.exec(rest);
	// Continuation lines are indented, and may start with another address.
	return first === null ? [] : readListed(rest.slice(first.index), {line: /^</});
};

const announced =
	/^.{0,200}(?:following address(?:\(es\)|es)?|address(?:es)? to which the message)[^\n]{0,80}(?:\n[^\n]{0,40})?(?:failed|delivered (?:is|are)|delivered)[^\n]{0,20}$/im;
const exim =
	/created automatically by mail delivery software|A message that you (?:have )?sent (?:could not|has not|to the following)|following address(?:\(es\)|es)?\s{1,4}(?:failed|have not)/i;

const undisclosed =
	/^[ \t]{1,8}an undisclosed address[ \t]*\n[ \t]{1,12}\((?:ultimately )?generated from[ \t]{1,3}(?=[^\s@]{1,64}@)/gim;

/**
 * Exim and similar (GMX, 1&1, mail.ru, MXLogic): `X-Failed-Recipients`, and a list of addresses, each with its reason
 * indented below it.
 */
export const readExim: Detector = ({field, ownText, senders}) => {
	const failed = findAddresses(field('x-failed-recipients')).map(({address}) => address);
	if (failed.length === 0 && !exim.test(ownText)) {
		return [];
	}
	// mail.ru writes everything twice, the second time in English.
	const listed = [...readListed(ownText, {after: announced}), ...readUndisclosed(ownText)];
	const findings = listed.length > 0 ? listed : readListed(ownText, {except: failed.length > 0 ? [] : senders});
	if (failed.length === 0) {
		return findings;
	}
	return failed.map(
		(recipient): Finding =>
			findings.find(finding => finding.recipient !== null && isSameAddress(finding.recipient, recipient)) ??
			findings.find(
				({originalRecipient}) => originalRecipient !== undefined && isSameAddress(originalRecipient, recipient),
			) ?? {
				recipient,
				text: ownText,
			},
	);
};

/** Finds aliases whose target Exim hides, so that the address that was sent to stands in for it. */
function readUndisclosed(ownText: string): Finding[] {
	return [...ownText.matchAll(undisclosed)].slice(0, maxFindings).flatMap(({index, 0: words}) => {
		const [target] = findAddresses(ownText.slice(index + words.length, index + words.length + 330));
		const rest = ownText.slice(index);
		return target === undefined
			? []
			: [{recipient: target.address, text: rest.slice(0, /\n[ \t]*\n/.exec(rest)?.index)}];
	});
}

const introductions = new RegExp(
	[
		'Hi\\. (?:This is|The MTA|This message)',
		'qmail-send program',
		'(?:unable|wasn.t able|not able|failed) to deliver (?:your |this |the )?(?:message|mail|e-?mail) to the following (?:e-?mail )?(?:address|recipient|user)',
		'(?:message|mail|e-?mail)(?: message)? to the following (?:e-?mail )?(?:address|recipient)[^\\n]{0,20} (?:could not|cannot|was not)',
		'Unable to deliver message to the following address',
		'We.re sorry\\. There.s a problem with the e-?mail address',
		'(?:could not|cannot|can not|was not|couldn.t) (?:be )?deliver(?:ed)?[^\\n]{0,40} to the following (?:e-?mail )?(?:address|recipient|user)',
		'following (?:e-?mail )?(?:address|recipient)(?:es|s|\\(e?s\\))?[^\\n]{0,40}(?:rejected|failed|not accept|could not)',
	].join('|'),
	'i',
);
const paragraph = /^[ \t]{0,8}<[^<>\s]{1,320}>:/m;

/**
 * qmail and systems with bounces like it (Yahoo!, James, MailFoundry, many appliances): paragraphs that start with
 * `<address>:`.
 */
export const readQmail: Detector = ({ownText, senders}) => {
	const introduction = introductions.exec(ownText);
	if (introduction === null) {
		return [];
	}
	const start = paragraph.exec(ownText)?.index;
	// qmail names the servers that it gives up on here, which is not about the message.
	const withoutHosts = (text: string) => text.replace(/^Giving up on [^\n]{0,200}$/gm, '');
	const findings =
		start === undefined
			? readListed(ownText.slice(introduction.index), {except: senders})
			: readListed(ownText.slice(start), {line: paragraph});
	return findings.map(finding => ({...finding, text: withoutHosts(finding.text)}));
};

const dmaSentence = /There was an error delivering your mail to\s{1,4}/;
const dma = /DragonFly Mail Agent/;

/** The DragonFly Mail Agent of the BSDs: one recipient per bounce. */
export const readDragonfly: Detector = ({ownText}) => {
	const rest = dma.test(ownText) ? (textAfter(ownText, dmaSentence) ?? '') : '';
	const found = findAddresses(rest.slice(0, 400))[0];
	return found === undefined ? [] : [{recipient: found.address, text: rest.slice(found.end)}];
};

const rejected = /not member|reject|loop alert|unsubscribe|spam mail|ignored|deny/i;

/** The list server fml, which rejects posts in the list's name, so the recipient is the list. */
export const readFml: Detector = ({field, ownText}) => {
	const from = findAddresses(field('from'))[0]?.address;
	const isFml = /fml/i.test(field('x-mlserver')) || /\.FML(?:AAB)?@/.test(field('message-id'));
	return isFml &&
		from !== undefined &&
		/-admin@/i.test(from) &&
		rejected.test(`${field('subject')} ${ownText.slice(0, 500)}`)
		? [{recipient: listOf(from, ownText), text: `Rejected by the policy of the list: ${ownText}`}]
		: [];
};

function listOf(admin: string, text: string): string {
	const list = admin.replace(/-admin@/i, '@');
	return findAddresses(text).find(({address}) => list.toLowerCase().endsWith(address.toLowerCase()))?.address ?? list;
}

const internetMailService = /^.{0,40}did not reach the following recipient(?:\(s\)|s)?[^\n]{0,20}$/im;
// Exchange's heading above the details for administrators, and its line with the server's name, in the languages of
// Exchange.
const diagnosis =
	/^[^\n]{0,20}(?:Diagnostic information for administrators|Diagnoseinformationen für Administratoren|Informations de diagnostic pour les administrateurs|Información de diagnóstico para administradores|Informazioni di diagnostica per gli amministratori|Informações de diagnóstico para administradores|Diagnostisk information för administratörer|Diagnostische informatie voor beheerders|Diagnostiske oplysninger til administratorer|Informacje diagnostyczne dla administratorów|管理者向けの診断情報|供管理员使用的诊断信息)[^\n]{0,20}$/imu;
const server =
	/^[^\n]{0,20}(?:Generating server|Generierender Server|Serveur de g[ée]n[ée]ration|Servidor de generaci[óo]n|Server di generazione|Genererande server|Servidor de origem|Bronserver|サーバーの生成|生成服务器)[ \t]*[:：][^\n]{0,300}$/imu;
const friendly =
	/^[^\n]{0,20}(?:Delivery has failed to these recipients|Your message (?:wasn't|wasn’t|couldn't be|couldn’t be) delivered to|Fehler bei der Nachrichtenzustellung an folgende|[ÉE]chec de la remise (?:pour|aux)|Error de entrega a estos destinatarios|No se pudo entregar (?:a|el)|Delivery is delayed to these recipients|Your message to|次の受信者または配布リストへの配信に失敗)[^\n]{0,120}$/imu;

/**
 * Exchange: the Internet Mail Service's `did not reach the following recipient(s)`, and the reports of Exchange 2007
 * and later.
 */
export const readExchange: Detector = ({ownText, senders}) => {
	const listed = readListed(ownText, {after: internetMailService});
	if (listed.length > 0) {
		return listed;
	}
	const after = server.test(ownText) ? server : diagnosis;
	if (diagnosis.test(ownText) || server.test(ownText)) {
		const found = readListed(ownText, {after});
		return found.length > 0 ? found : readListed(ownText, {after: friendly, until: diagnosis, except: senders});
	}
	return /Exchange|Outlook|Microsoft/i.test(ownText) ? readListed(ownText, {after: friendly, except: senders}) : [];
};

const oldNotice = /^.{0,40}Delivery to the following recipients? (?:failed permanently|has been delayed)[^\n]{0,40}$/im;
const currentNotice =
	/^\**[ \t]*(?:Your message (?:wasn't|wasn’t|was not|couldn't be|couldn’t be) delivered to|There was a (?:temporary )?problem (?:while )?delivering your message to)\s{1,4}/im;
const remoteReply =
	/(?:The error that the other server returned was|The response(?: from the remote server)? was):?\s{1,4}/i;

/** Gmail without a delivery status: `Delivery to the following recipient failed permanently:`, and current notices. */
export const readGmail: Detector = ({ownText}) => {
	const listed = readListed(ownText, {after: oldNotice});
	if (listed.length > 0) {
		return listed;
	}
	const rest = textAfter(ownText, currentNotice) ?? '';
	const found = findAddresses(rest.slice(0, 400))[0];
	// Other systems start with the same words, but name the address elsewhere.
	return found === undefined || found.start >= 6
		? []
		: [{recipient: found.address, text: textAfter(rest, remoteReply) ?? rest}];
};

const notDelivered = /^[ \t]*(?:was|could) not (?:be )?delivered to:?[ \t]*$/im;
const reasons = /^[ \t]*-{3,}[ \t]*Failure Reasons?[ \t]*-{3,}[ \t]*$/im;
const because = /^[ \t]*because:?[ \t]*$/im;

/**
 * Lotus Notes and Domino: `was not delivered to: … because: …`, and the older `Failure Reasons` with the reason first.
 */
export const readDomino: Detector = ({ownText}) => {
	if (notDelivered.test(ownText) && because.test(ownText)) {
		return readListed(ownText, {after: notDelivered}).map(finding => ({
			...finding,
			text: finding.text.replace(because, ''),
		}));
	}
	return reasonsFirst(textAfter(ownText, reasons) ?? '');
};

function reasonsFirst(text: string): Finding[] {
	const findings: Finding[] = [];
	let reason = '';
	let isReasonOver = false;
	for (const line of text.split('\n')) {
		const found = findAddresses(line.slice(0, 400))[0];
		if (found === undefined || line.slice(0, found.start).trim().length > 1) {
			reason = isReasonOver && line.trim() !== '' ? line : `${reason}\n${line}`;
			isReasonOver &&= line.trim() === '';
		} else {
			findings.push({recipient: found.address, text: reason.trim()});
			isReasonOver = true;
		}
	}
	return findings.slice(0, maxFindings);
}

const entry = /^[ \t]*Recipient address:[ \t]*/im;

/**
 * Messaging Server of Sun, iPlanet and Oracle, and its predecessor PMDF: entries of `Recipient address:`, `Reason:`,
 * `Diagnostic code:`.
 */
export const readMessagingServer: Detector = ({ownText}) => {
	const findings: Finding[] = [];
	for (const text of ownText.split(entry).slice(1, maxFindings + 1)) {
		const recipient = findAddresses(text.slice(0, 400))[0];
		const original = /^[ \t]*Original address:[ \t]*(.{1,400})/im.exec(text)?.[1];
		const originalRecipient = original && findAddresses(original)[0]?.address;
		if (recipient !== undefined) {
			const {address, end} = recipient;
			findings.push({recipient: address, text: text.slice(end), ...(originalRecipient && {originalRecipient})});
		}
	}
	return findings;
};

const reason = /This Message was undeliverable due to the following reason:?/i;
const perRecipient = /^[ \t]*Recipient:/m;
const bracketed = /^[ \t]*(?:SMTP[ \t]*)?<([^<>\s]{3,320})>[ \t]*$/gm;
const closing = /^[ \t]*Please reply to/im;

/** Post.Office and InterMail, which many carriers run: one reason for all recipients listed below it. */
export const readPostOffice: Detector = ({ownText}) => {
	const body = textAfter(ownText, reason) ?? '';
	if (perRecipient.test(body)) {
		return [];
	}
	const text = body.slice(0, closing.exec(body)?.index);
	return [...text.matchAll(bracketed)]
		.slice(0, maxFindings)
		.flatMap(([, found]) => findAddresses(found as string).slice(0, 1))
		.map(({address}) => ({recipient: address, text}));
};

const unreached = /\[Status:[^\n<]{0,60}Address:[ \t]*<([^<>\s]{3,320})>,([^\n\]]{0,1000})/g;

/**
 * Zoho: `address Invalid Address, ERROR_CODE :550, ERROR_CODE :5.1.1 …`, or
 * `[Status: Error, Address: <address>, ResponseCode 421 …]`.
 */
export const readZoho: Detector = ({ownText}) => {
	const findings: Finding[] = [];
	for (const line of ownText.includes('ERROR_CODE') ? ownText.split('\n') : []) {
		const found = findAddresses(line.slice(0, 400))[0];
		if (found !== undefined && line.includes('ERROR_CODE') && line.slice(0, found.start).trim().length < 4) {
			// A separate mark precedes each of the two codes.
			const text = line.slice(found.end).replaceAll(/,?[ \t]{0,4}ERROR_CODE[ \t]{0,4}:/g, ' ');
			findings.push({recipient: found.address, text: text.trim()});
		}
	}
	for (const [, recipient, text] of ownText.matchAll(unreached)) {
		findings.push({recipient: recipient as string, text: text as string});
	}
	return findings.slice(0, maxFindings);
};

const message = /^-{3,}server message[ \t]*$/im;
const command = /^-{3,}SMTP command[ \t]*$/im;
const verbs = {RCPT: 'rcpt', MAIL: 'mail', EHLO: 'ehlo', HELO: 'ehlo'} as const;

/** m-FILTER: the recipient is the last address above `-------server message`; the failed command is below. */
export const readMfilter: Detector = ({ownText}) => {
	const head = message.exec(ownText);
	const recipient = head === null ? undefined : findAddresses(ownText.slice(0, head.index)).at(-1)?.address;
	if (head === null || recipient === undefined) {
		return [];
	}
	const verb = textAfter(ownText, command)?.trimStart().slice(0, 4).toUpperCase();
	const phase = verbs[verb as keyof typeof verbs];
	const text = ownText.slice(head.index + head[0].length, command.exec(ownText)?.index).trim();
	return [{recipient, text, ...(phase && {phase})}];
};
