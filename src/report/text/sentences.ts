import {findAddresses} from '../addresses.ts';
import {type Detector, type Finding, mostFindings} from './finding.ts';
import {readListed} from './listed.ts';

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
	// InterScan, and others that show only the session.
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
		.slice(0, mostFindings)
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

// The line of each that announces the recipients; each recipient then stands on a line of his own, his reason behind or below.
const announcements: Readonly<Record<string, RegExp>> = {
	opensmtpd: /^.{0,80}for\s{1,12}the following\s{1,12}list of recipients:?[ \t]*$/im,
	courier: /^.{0,40}Your message to the following recipients? (?:cannot|could not) be delivered:?[ \t]*$/im,
	workmail: /^.{0,80}trying to deliver the mail to the following recip(?:ients?)?:?[ \t]*$/im,
	smtpsvc: /^.{0,40}Delivery to the following recipients?[^\n]{0,40}(?:fail|delay|abort|expir)[^\n]{0,60}$/im,
	powermta: /^.{0,40}the affected recipients;[^\n]{0,120}(?:\n[^\n]{1,120}){0,4}$/im,
	// MailMarshal puts the reason above.
	marshal: /^.{0,40}The following recipients? (?:were|was) affected:?[ \t]*$/im,
	hmail: /^.{0,40}The following recipients?(?:\(s\))? could not be reached:?[ \t]*$/im,
	groupwise: /^.{0,40}The message that you sent was undeliverable to the following:?[ \t]*$/im,
	smail: /^[ \t]{0,8}\|?-{3,}[ \t]*Failed addresses follow:?[ \t]*-{3,}\|?[ \t]*$/im,
	errors: /^[ \t]{0,8}-{3,} ?The following addresses? had (?:delivery |permanent )?(?:errors?|problems?)[^\n]{0,20}$/im,
	undeliverable:
		/^.{0,80}(?:was|is|were|been|be) (?:undeliverable|not delivered|not be delivered|delivered) to the following (?:recipients?|addresse?s?|e-?mail addresse?s?|users?|persons?|destinations?)?(?:\(e?s\))?[^\n]{0,40}$/im,
	following:
		/^.{0,120}(?:to|for|of) (?:one or more of )?the following (?:list of )?(?:e-?mail )?(?:recipient|address|user|person|destination)(?:s|es|\(s\)|\(es\))?[^\n]{0,60}:[ \t]*$/im,
};

/** Mail systems that are recognized only by the line before their list. */
export const readAnnounced: Detector = ({said, senders}): Finding[] => {
	for (const after of Object.values(announcements)) {
		const listed = readListed(said, {
			after,
			until: /^Additional Information[ \t]*$/m,
			except: after === announcements.following ? senders : [],
		});
		if (listed.length > 0) {
			return listed;
		}
	}
	return [];
};
