import type {Classify} from '../../mail/bounce.ts';
import {findAddresses, sameAddress} from '../addresses-in-text.ts';
import type {BounceText} from './bounce-text.ts';
import {type Detector, type Finding, mostFindings, readListed} from './listed.ts';
import {
	readDomino,
	readDragonfly,
	readExchange,
	readExim,
	readFml,
	readGmail,
	readMessagingServer,
	readMfilter,
	readPostfix,
	readPostOffice,
	readQmail,
	readSendmail,
	readZoho,
} from './mailers.ts';
import {daemonSigns, mayBeBounce} from './signs.ts';

/** What a mail's text says of recipients; nothing: it is no bounce. */
export function findingsOf(bounce: BounceText): Finding[] {
	for (const detect of [readFml, ...(mayBeBounce(bounce) ? [...detectors, readGeneric] : [])]) {
		const findings = detect(bounce);
		if (findings.length > 0) {
			return findings;
		}
	}
	return [];
}

// Sentences that name their recipient. With one recipient the reason may be above or below; with several it follows each.
const sentences: readonly RegExp[] = [
	// IMail; its reason precedes the address.
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
	// James and carriers that gate mail to telephones: the reason is above.
	/^[ \t]*RCPT TO:?[ \t]*[<"']?(?=[^\s@]{1,64}@)/gim,
	// InterScan, and others that show only the session.
	/^[ \t]*(?:Sent[ \t]*)?>>>[ \t]?RCPT TO:?[ \t]*<(?=[^\s@]{1,64}@)/gim,
];

/** Mail systems that name each recipient in a sentence of their own. */
const readSentences: Detector = ({said}) => {
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

// The line of each that announces the recipients; each recipient then is on a line of its own, its reason behind or below.
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
const readAnnounced: Detector = ({said, senders}): Finding[] => {
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

const failing = new RegExp(
	[
		'(?:could not|couldn.t|cannot|can.t|can not|was not|wasn.t|were not|not be|unable to|(?:not|n.t) able to|failed to|fail(?:ed|ure) (?:in|of)|impossible to|did not) (?:be )?(?:deliver|reach|sen[dt]|accept|process|transmit|forward|complete)',
		'undeliver(?:able|ed)|non-?deliver|delivery (?:has |to )?.{0,60}(?:fail|error|problem)|delivery (?:errors?|problems?|failure)|returned (?:to|mail|undelivered)|error (?:occurred|delivering|while)|(?:had|have|has) (?:permanent|fatal|delivery)',
		'(?:not|n.t) an? (?:valid|known|existing) (?:user|recipient|mailbox|address|account)|(?:user|recipient|mailbox|address|account|host|domain).{0,40}(?:unknown|not found|does(?:n.t| not) exist|invalid|full|disabled|over ?quota|rejected|refused|unavailable|not exist|inactive)',
		'(?:unknown|no such|invalid|bad|nonexistent) (?:user|recipient|mailbox|address|account|host|domain|local)',
		'\\b[45]\\d\\d[ -]#?[45]\\.\\d{1,3}\\.\\d{1,3}\\b|not listed in|has not yet been|still undelivered|has been delayed|message (?:is|was) (?:refused|rejected)|rejected (?:by|your|the)',
		'not been delivered|(?:was|been|is) (?:blocked|stopped|quarantined|bounced|discarded)|considered unsolicited|message is delayed',
		'nicht (?:zugestellt|erreicht)|unzustellbar|nicht vorhanden|nicht zustellbar|konnte nicht|existiert nicht|unbekannt',
		'n.a (?:pas )?pu [êe]tre|non (?:remis|distribu|d[ée]livr)|n.existe pas|inconnu|impossible de|[ée]chec',
		'no (?:se )?(?:ha )?(?:podido|pudo|puede) (?:ser )?entreg|no existe|desconocid|no fue posible|no entregado',
		'non [èe] stato|impossibile|inesistente|n[ãa]o (?:p[ôo]de|foi) (?:ser )?entreg|n[ãa]o existe|kon niet|niet bestaat|nie istnieje|не может быть|не существует|не доставлен',
		'配信できません|配信に失敗|送信できません|お届けできません|届けることができ|配送できません|見つかりません|存在しない|宛先不明|エラー|无法|不存在|失败|退信',
	].join('|'),
	'iu',
);
// In a text of any language.
const reply = /\b5\d\d[ -]#?5\.\d{1,3}\.\d{1,3}\b/;
const alone = /^\W*(?:mail.?delivery[\w ]{0,20}|mailer.?daemon(?:@[\w.-]+)?)\W*(?:<|$)/i;
const bystander =
	/^(?:mailer-?daemon|post_?master|abuse|support|help(?:desk)?|hostmaster|webmaster|admin(?:istrator)?|no-?reply|info|security|noc)@/i;
const notTheirs =
	/(?:MAIL FROM|envelope-from|from|sender|return-path|reply-to|contact|e-?mail us at|write to|message-id)[:\s]{0,3}[<"'(]{0,2}$/i;

/**
 * Bounces of unknown families: the header is a daemon's, and either the text describes a failure, or both sender and
 * subject are a daemon's and the mail returns another one.
 */
const readGeneric: Detector = bounce => {
	const {said, senders} = bounce;
	if (said.trim() === '' || !isDaemons(bounce) || !(givesBack(bounce) || tellsOfFailure(said))) {
		return [];
	}
	const listed = readListed(said, {except: senders});
	const theirs = listed.filter(({recipient}) => recipient !== null && !bystander.test(recipient));
	return theirs.length > 0 ? theirs : [...listed.slice(0, 1), ...readSentence(bounce)].slice(0, 1);
};

const longestLetter = 500;
// A host's notices to its own users about their mailboxes.
const toOwner =
	/\b(?:your|ihre?|votre|su|tu|tuo|vostra|seu|sua|uw|din|twoj[ae]?|ваш[ае]?) (?:\w{1,12}[ -])?(?:mail|inbox|account|konto|quota|postfach|bo[iî]te|compte|buz|cuenta|casella|caixa|conta|skrzynk|postvak|postbus|ящик)|\b(?:almost|nearly|quota warning|fast voll|presque|casi|quasi|quase|prawie|bijna|почти)\b|\d ?%/iu;

/**
 * A letter of a sentence or two without a word about delivery. A refusal that the rules know counts in a daemon's mail.
 * A full mailbox, which suppresses no address, counts from any machine.
 */
export function readLetter(bounce: BounceText, classify: Classify): Finding[] {
	const {from, machine, nullPath, trace, other} = daemonSigns(bounce);
	const said = bounce.said.trim() || bounce.field('subject').trim();
	const isDaemon = isDaemons(bounce);
	const isMachine = from ? trace || bounce.field('return-path') === '' : machine && nullPath;
	if (
		!(isDaemon || isMachine) ||
		other ||
		!mayBeBounce(bounce) ||
		said === '' ||
		said.length > longestLetter ||
		toOwner.test(said)
	) {
		return [];
	}
	const evidence = {phase: null, code: null, enhanced: null, status: null, host: null, text: said};
	const {category} = classify(evidence);
	const findings = readSentence({...bounce, said});
	const [{recipient} = {recipient: null}] = findings;
	return (category === 'mailbox_full' && recipient !== null) || (isDaemon && category !== 'undetermined')
		? findings
		: [];
}

/** A daemon needs two signs at least. */
function isDaemons(bounce: BounceText): boolean {
	const {daemon, from, subject, anonymous: nobody, nullPath, trace, replies, returned} = daemonSigns(bounce);
	const replied = reply.test(bounce.said);
	return (
		nobody ||
		(daemon && (subject || trace || returned || alone.test(bounce.field('from')))) ||
		(from && (subject || returned || (nullPath && replied))) ||
		(subject && (returned || (trace && replied) || (nullPath && !replies)))
	);
}

function tellsOfFailure(said: string): boolean {
	return failing.test(said.replace(/\s+/g, ' '));
}

function givesBack(bounce: BounceText): boolean {
	const {from, subject, returned} = daemonSigns(bounce);
	return from && subject && returned;
}

/** Addresses within sentences: the first one that is not the sender's or a help desk's. */
function readSentence({said, senders}: BounceText): Finding[] {
	const candidates = findAddresses(said).filter(
		({address, start}) =>
			!bystander.test(address) &&
			!senders.some(sender => sameAddress(sender, address)) &&
			!notTheirs.test(said.slice(Math.max(0, start - 40), start)),
	);
	return [{recipient: candidates[0]?.address ?? null, text: said}];
}

/** The families of text bounces, those with the most specific words first. The first that finds a recipient decides. */
const detectors: readonly Detector[] = [
	readDragonfly,
	readMfilter,
	readZoho,
	readGmail,
	readExchange,
	readMessagingServer,
	readSendmail,
	readDomino,
	readPostfix,
	readPostOffice,
	readExim,
	readQmail,
	readAnnounced,
	readSentences,
];
