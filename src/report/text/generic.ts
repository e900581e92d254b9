import type {Classify} from '../../mail/bounce.ts';
import {findAddresses, sameAddress} from '../addresses.ts';
import type {BounceText} from './bounce-text.ts';
import type {Detector, Finding} from './finding.ts';
import {readListed} from './listed.ts';
import {daemonSigns, mayBeBounce} from './signs.ts';

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
export const readGeneric: Detector = bounce => {
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
	const {daemon, from, subject, nobody, nullPath, trace, replies, returned} = daemonSigns(bounce);
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
