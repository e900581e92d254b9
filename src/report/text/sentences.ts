import {findAddresses} from '../addresses.ts';
import type {Detector, Finding} from './finding.ts';

// Sentences that name their recipient. The reason of one may stand above or below, that of several follows each.
const sentences: readonly RegExp[] = [
	// IMail; its reason stands before the address.
	/^[ \t]*(?:Unknown (?:user|host)|User mailbox exceeds allowed size|undeliverable to|Delivery failed \d{1,3} attempts|Invalid final delivery userid|User (?:unknown|not found|disabled))[ \t]*:?[ \t]*[<"']?(?=[^\s@]{1,64}@)/gim,
	// X.400-like gateways and MailEnable: `SMTP Server <…> rejected recipient <…> (Error following RCPT command). It responded …`.
	/rejected (?:the )?recipient[ \t]*[<"'](?=[^\s@]{1,64}@)/gi,
	/^[ \t]*(?:The following recipients? returned permanent errors:)[ \t]*(?=[^\s@]{1,64}@)/gim,
	// CommuniGate Pro.
	/^[ \t]*Failed to deliver to [ \t]*[<"']{1,2}(?=[^\s@]{1,64}@)/gim,
	// MailFoundry, InterScan.
	/^[ \t]*Unable to deliver (?:the |your )?(?:message|mail) to:?[ \t]*[<"']?(?=[^\s@]{1,64}@)/gim,
	// NetAddress.
	/^[ \t]*Intended recipient:?[ \t]*[<"']?(?=[^\s@]{1,64}@)/gim,
	// KDDI, au.
	/^[ \t]*Could not be delivered to:?[ \t]*[<"']?(?=[^\s@]{1,64}@)/gim,
	// InterMail and Post.Office, which many carriers use.
	/^[ \t]*Recipient:[ \t]*[<"']?(?=[^\s@]{1,64}@)/gim,
	// MDaemon, SurfControl.
	/^[ \t]*(?:Failed address|Addressed To):?[ \t]*[<"']?(?=[^\s@]{1,64}@)/gim,
	// Zoho of a server that cannot be reached.
	/Address:[ \t]*<(?=[^\s@]{1,64}@[^>\n]{1,253}>,[ \t]*ResponseCode)/gi,
	// James and carriers that gate mail to telephones: the reason stands above.
	/^[ \t]*RCPT TO:?[ \t]*[<"']?(?=[^\s@]{1,64}@)/gim,
	// InterScan, and whoever shows no more than the session.
	/^[ \t]*(?:Sent[ \t]*)?>>>[ \t]?RCPT TO:?[ \t]*<(?=[^\s@]{1,64}@)/gim,
];

/** Mail systems that name each recipient in a sentence of their own. */
export const readSentences: Detector = ({said}) => {
	for (const sentence of sentences) {
		const found = recipientsOf(said, sentence);
		if (found.length > 0) {
			return found;
		}
	}
	return [];
};

function recipientsOf(said: string, sentence: RegExp): Finding[] {
	const places = [...said.matchAll(sentence)]
		.slice(0, 100)
		.map(match => ({start: match.index, at: match.index + match[0].length}));
	const findings: Finding[] = [];
	for (const [i, {start, at}] of places.entries()) {
		const address = findAddresses(said.slice(at, at + 330))[0];
		const text = places.length === 1 ? said : said.slice(start, places[i + 1]?.start);
		if (address !== undefined && !findings.some(({recipient}) => recipient === address.address)) {
			findings.push({recipient: address.address, text});
		}
	}
	return findings;
}
