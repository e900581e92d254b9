import type {Classify, Evidence} from '../../../mail/bounce.ts';
import type {ReportAction} from '../../../mail/report.ts';
import {findAddresses, isSameAddress} from '../addresses-in-text.ts';
import type {BounceText} from './bounce-text.ts';
import {type Detector, type Finding, maxFindings, readListed} from './listed.ts';
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

/** Returns what a message's text says about recipients. Empty if it is not a bounce. */
export function findFindings(bounce: BounceText): Finding[] {
	for (const detect of [readFml, ...(mayBeBounce(bounce) ? [...detectors, readGeneric] : [])]) {
		const findings = detect(bounce);
		if (findings.length > 0) {
			return findings;
		}
	}
	return [];
}

// Sentences that name their recipient. A single recipient's reason may be above or below; with several, it follows
// each.
const sentences: readonly RegExp[] = [
	// IMail, whose reason precedes the address.
	/^[ \t]*(?:Unknown (?:user|host)|User mailbox exceeds allowed size|undeliverable to|Delivery failed \d{1,3} attempts|Invalid final delivery userid|User (?:unknown|not found|disabled))[ \t]*:?[ \t]*[<"']?(?=[^\s@]{1,64}@)/gim,
	// X.400-like gateways and MailEnable:
	// `SMTP Server <…> rejected recipient <…> (Error following RCPT command). It responded …`.
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
	// Zoho, for a server that cannot be reached.
	/Address:[ \t]*<(?=[^\s@]{1,64}@[^>\n]{1,253}>,[ \t]*ResponseCode)/gi,
	// James, and carriers that relay email to telephones. The reason is above.
	/^[ \t]*RCPT TO:?[ \t]*[<"']?(?=[^\s@]{1,64}@)/gim,
	// InterScan, and others that show only the session.
	/^[ \t]*(?:Sent[ \t]*)?>>>[ \t]?RCPT TO:?[ \t]*<(?=[^\s@]{1,64}@)/gim,
];

/** Mail systems that name each recipient in a sentence of its own. */
const readSentences: Detector = ({ownText}) => {
	for (const sentence of sentences) {
		const findings = findRecipients(ownText, sentence);
		if (findings.length > 0) {
			return findings;
		}
	}
	return [];
};

function findRecipients(ownText: string, sentence: RegExp): Finding[] {
	const matches = [...ownText.matchAll(sentence)].slice(0, maxFindings);
	const findings: Finding[] = [];
	for (const [i, {index, 0: words}] of matches.entries()) {
		const address = findAddresses(ownText.slice(index + words.length, index + words.length + 330))[0]?.address;
		const text = matches.length === 1 ? ownText : ownText.slice(index, matches[i + 1]?.index);
		if (address !== undefined && !findings.some(({recipient}) => recipient === address)) {
			findings.push({recipient: address, text});
		}
	}
	return findings;
}

// The lines that announce recipients. Each recipient is then on its own line, with the reason after or below it.
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

/** Mail systems recognized only by the line before their list. */
const readAnnounced: Detector = ({ownText, senders}): Finding[] => {
	for (const after of Object.values(announcements)) {
		const listed = readListed(ownText, {
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

const failurePhrase = new RegExp(
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
// It occurs in texts of any language.
const permanentReply = /\b5\d\d[ -]#?5\.\d{1,3}\.\d{1,3}\b/;
const daemonNameOnly = /^\W*(?:mail.?delivery[\w ]{0,20}|mailer.?daemon(?:@[\w.-]+)?)\W*(?:<|$)/i;
const helpDesk =
	/^(?:mailer-?daemon|post_?master|abuse|support|help(?:desk)?|hostmaster|webmaster|admin(?:istrator)?|no-?reply|info|security|noc)@/i;
const introducesOther =
	/(?:MAIL FROM|envelope-from|from|sender|return-path|reply-to|contact|e-?mail us at|write to|message-id)[:\s]{0,3}[<"'(]{0,2}$/i;

/**
 * Bounces of unknown mail systems. The header must be a daemon's. In addition, the text must describe a failure, or the
 * message must return another one while both its sender and its subject are a daemon's.
 */
const readGeneric: Detector = bounce => {
	const {ownText, senders} = bounce;
	if (ownText.trim() === '' || !isFromDaemon(bounce)) {
		return [];
	}
	const {hasDaemonSender, hasBounceSubject, returnsMessage} = daemonSigns(bounce);
	if (!(hasDaemonSender && hasBounceSubject && returnsMessage) && !failurePhrase.test(ownText.replace(/\s+/g, ' '))) {
		return [];
	}
	const listed = readListed(ownText, {except: senders});
	const candidates = listed.filter(({recipient}) => recipient !== null && !helpDesk.test(recipient));
	return candidates.length > 0 ? candidates : [...listed.slice(0, 1), ...readSentence(bounce)].slice(0, 1);
};

const maxLetterLength = 500;
// A server's notices to its own users about their mailboxes.
const noticeToOwner =
	/\b(?:your|ihre?|votre|su|tu|tuo|vostra|seu|sua|uw|din|twoj[ae]?|ваш[ае]?) (?:\w{1,12}[ -])?(?:mail|inbox|account|konto|quota|postfach|bo[iî]te|compte|buz|cuenta|casella|caixa|conta|skrzynk|postvak|postbus|ящик)|\b(?:almost|nearly|quota warning|fast voll|presque|casi|quasi|quase|prawie|bijna|почти)\b|\d ?%/iu;

/**
 * Reads a message of a sentence or two that does not mention delivery. From a daemon, any refusal that the rules
 * recognize counts. From any other machine, only a full mailbox counts, because it suppresses no address.
 */
export function readLetter(bounce: BounceText, classify: Classify): Finding[] {
	const {hasDaemonSender, hasMachineName, hasNullPath, isAutomated, isReplyOrList} = daemonSigns(bounce);
	const text = bounce.ownText.trim() || bounce.field('subject').trim();
	const isDaemon = isFromDaemon(bounce);
	const isMachine = hasDaemonSender ? isAutomated || !bounce.field('return-path') : hasMachineName && hasNullPath;
	if (
		!(isDaemon || isMachine) ||
		isReplyOrList ||
		!mayBeBounce(bounce) ||
		text === '' ||
		text.length > maxLetterLength ||
		noticeToOwner.test(text)
	) {
		return [];
	}
	const evidence = {phase: null, code: null, enhanced: null, status: null, host: null, text};
	const {category} = classify(evidence);
	const findings = readSentence({...bounce, ownText: text});
	const [{recipient} = {recipient: null}] = findings;
	return (category === 'mailbox_full' && recipient !== null) || (isDaemon && category !== 'undetermined')
		? findings
		: [];
}

/** Requires at least two signs of a daemon. */
function isFromDaemon(bounce: BounceText): boolean {
	const signs = daemonSigns(bounce);
	const {hasDaemonSender, hasBounceSubject, hasNullPath, isAutomated, returnsMessage} = signs;
	const hasReply = permanentReply.test(bounce.ownText);
	const isNameOnly = daemonNameOnly.test(bounce.field('from'));
	return (
		signs.isAnonymous ||
		(signs.hasDaemonName && (hasBounceSubject || isAutomated || returnsMessage || isNameOnly)) ||
		(hasDaemonSender && (hasBounceSubject || returnsMessage || (hasNullPath && hasReply))) ||
		(hasBounceSubject && (returnsMessage || (isAutomated && hasReply) || (hasNullPath && !signs.isAutoReplied)))
	);
}

/** Returns the first address within sentences that is neither the sender's nor a help desk's. */
function readSentence({ownText, senders}: BounceText): Finding[] {
	const candidates = findAddresses(ownText).filter(
		({address, start}) =>
			!helpDesk.test(address) &&
			!senders.some(sender => isSameAddress(sender, address)) &&
			!introducesOther.test(ownText.slice(Math.max(0, start - 40), start)),
	);
	return [{recipient: candidates[0]?.address ?? null, text: ownText}];
}

/** The families of text bounces, those with the most specific phrases first. The first to find a recipient decides. */
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

const daemonSender =
	/mailer.?daemon|mail.?daemon|post_?master|post_?office|mail (?:delivery|deliver|administrator|system)\s*[<("]|mail.?delivery|delivery (?:sub)?system|(?:system|mail|server|email) administrator|anti.?virus|returned.?mail|bounces?\b|mdaemon|undeliver|nondeliver|(?:^|\W)(?:postmast|maildaemon|mdaemon|symail|mailsystem|mailserver|mailgw|imss|interscan|administrator|sysadmin)@/i;
const bounceSubject = new RegExp(
	[
		'undeliver(?:able|ed)|non.?deliver|not deliver|(?:delivery|deliver) (?:has )?(?:failed|failure|error|problem|report|notification)',
		'delivery status|delivery (?:incomplete|delayed)|status notif|failure noti|fail(?:ed|ure)[: ].{0,20}(?:mail|delivery|message)',
		'returned (?:mail|to sender|message|e-?mail)|return(?:ing)? (?:message|mail) to sender|(?:mail|message|email).{0,20}(?:returned|failure|failed|bounced)',
		'(?:could not|cannot|can.t|couldn.t|unable to|not) (?:be )?(?:send|sent|deliver)|message (?:delayed|delivery)|warning: (?:message|could not)',
		'considered (?:unsolicited|spam)|(?:message|mail) (?:you sent )?(?:was |has been )?(?:blocked|rejected|refused|quarantined)|(?:virus|banned contents?|spam) .{0,60}from you',
		'mail (?:system error|error|delivery)|mail failure|\\[bounce\\]|bounced? (?:mail|message)',
		'unzustellbar|nicht zu(?:gestellt|stellbar)|zustell(?:ung|bericht|fehler)|konnte nicht|fehlgeschlagen|r[üu]cksendung|mailfehler',
		'non (?:remis|distribu|d[ée]livr)|[ée]chec d|impossible (?:de|d.)|message retourn[ée]|notification d.[ée]tat|avis de non',
		'no (?:se )?(?:puede|pudo|ha podido|entreg)|no entregado|no entregable|rebotado|devuelto|error (?:de|en la|al) (?:entrega|enviar)|notificaci[óo]n de estado',
		'non recapitabil|impossibile (?:recapitare|consegnare)|mancata consegna|n[ãa]o foi poss[íi]vel|devolvid[ao]|niet bezorgd|nedoru[čc]|k[ée]zbes[íi]thetetlen|teslim edilemedi|(?:kan|kunne|kunde) (?:ikke|inte) (?:leveres|levereras)|toimittamat|недоставлен|не удается|не удалось|возвращ|반송|배달|전송 실패|보낼 수 없|mancato recapito|non consegn|n[ãa]o (?:entregue|foi entregue)|falha n|onbestelbaar|niet afgeleverd|olevererbart|kan inte levereras|niedostarcz|не доставлен|невозможно',
		'配信できません|配信に失敗|配信不能|配送(?:エラー|不能)|送信(?:エラー|できません|失敗)|届けられ|宛先不明|エラー|届かな|退信|退回|无法投递|未送达|无法送达|递送失败|投递失败',
	].join('|'),
	'iu',
);
const replyPrefix = /^\s*(?:re|aw|antw|sv|fwd?|wg|tr|rv|r|enc|vs)\s*(?:\[\d+\])?\s*:/i;
// Names that no person writes under.
const postmasterName = /(?:^|[<\s"])(?:post_?master|mdaemon)@/i;
// Sendmail inserts its own name if the return path is empty.
const nullReturnPath = /^<\s*>$|^<?mailer-daemon(?:[@>]|$)/i;
const listFields = ['list-id', 'list-unsubscribe', 'list-post', 'x-campaign', 'x-mailinglist'];

const personalPhrase =
	/^\s*(?:hi|hello|hey|dear|hallo|guten tag|liebe|bonjour|hola|ciao)\b(?!\. (?:this|the mta)|!?\s{1,4}this is)|\bI (?:got|get|received|keep|tried|sent)\b|\b(?:thanks|cheers|regards)\b|\?(?:\s|$)/i;

const machineName =
	/(?:^|[<\s.-])(?:no-?reply|do-?not-?reply|admin|root|e?mail|smtp|mta|server|system|gateway|anti|scan|alert|notif|delivery|robot|auto)/i;
// What daemons send to their postmaster about other people's mail, such as daily summaries.
const digestSubject =
	/^Postfix SMTP (?:server|client): errors|log summar|logwatch|statistics|^cron\b|(?:quarantine|spam|mail) (?:digest|summary)|^report domain:|\bdmarc\b/i;

/** Returns the signs of a daemon, and those of a person or a list. */
export function daemonSigns({field, returned}: BounceText) {
	const hasNullPath = nullReturnPath.test(field('return-path'));
	const hasBounceSubject = bounceSubject.test(field('subject'));
	const isPostmaster = postmasterName.test(field('from')) && hasBounceSubject;
	return {
		hasDaemonSender: daemonSender.test(field('from')) || daemonSender.test(field('sender')),
		/** The name is one that only daemons have. */
		hasDaemonName: /mailer.?daemon|mail.?delivery|delivery (?:sub)?system/i.test(field('from')),
		/** The name is a machine's, though not one that only daemons have. */
		hasMachineName: machineName.test(field('from')),
		hasBounceSubject,
		/** The return path is empty, as RFC 5321 §4.5.5 requires. */
		hasNullPath,
		/** The message declares itself a reply. */
		isAutoReplied: /^auto-replied/i.test(field('auto-submitted')),
		/** Both the return path and the author are empty. */
		isAnonymous: hasNullPath && /^(?:"[^"]{0,60}" )?(?:<\s*>)?$/.test(field('from').trim()),
		/** Any sign that a machine wrote it. */
		isAutomated:
			hasNullPath ||
			/^auto-/i.test(field('auto-submitted')) ||
			field('x-failed-recipients') !== '' ||
			/report-type\s*=\s*"?delivery-status/i.test(field('content-type')),
		returnsMessage: /\S/.test(returned),
		/** A person replied, or a list forwarded what arrived at its address. */
		isReplyOrList:
			replyPrefix.test(field('subject')) || (!isPostmaster && listFields.some(name => field(name) !== '')),
	};
}

/** Whether a daemon may have written it. A person's message is not a bounce, even if it quotes one. */
function mayBeBounce(bounce: BounceText): boolean {
	const signs = daemonSigns(bounce);
	if ((signs.isReplyOrList && !signs.hasDaemonName) || digestSubject.test(bounce.field('subject'))) {
		return false;
	}
	const isMachine = signs.returnsMessage || bounce.field('from') === '' || signs.hasMachineName;
	const isPersonal = personalPhrase.test(bounce.ownText.slice(0, 4096));
	return signs.hasDaemonSender || signs.isAutomated || (signs.hasBounceSubject && isMachine && !isPersonal);
}

const retryPhrase = new RegExp(
	[
		'(?:has|have) not yet been (?:delivered|sent)|has been delayed|is delayed|was delayed|being delayed|delivery (?:is )?delayed|message (?:has been )?delayed',
		'will (?:keep|continue|be|retry) (?:trying|to (?:try|retry|attempt)|retried|re-?attempted|tried again)|(?:keep|continue) (?:re)?trying|attempts? will (?:continue|be repeated)',
		'still (?:undelivered|being retried|in the queue|trying)|warning message only|this is (?:a|only a) warning|no need to resend|do(?:es)? not need to (?:be )?resen[dt]',
		'temporary problem delivering|delivery incomplete|could not send message for past|will retry|tente?r(?:a|ons) (?:encore|de nouveau)|weiterhin versuch|wird (?:weiter|erneut) versuch|seguir[áa] intentando',
		'transient non-fatal errors|配信が遅れ|配送が遅延',
	].join('|'),
	'i',
);
const giveUpPhrase =
	/(?:giv(?:en|ing) up|gave up|permanent (?:error|fail|fatal)|failed permanently|not going to try|no longer|final(?:ly)? fail|retry time(?:out)? exceeded|will not (?:be )?(?:retr|continue|try)|in the queue too long|no further)/i;
const delaySubject = /\b(?:delayed|warning|delivery incomplete|delay)\b|verzögert|en retard|retrasad|遅延/i;

const successPhrase =
	/(?:has been|was|were|is|been|be) (?:successfully |correctly )(?:delivered|relayed)|successfully (?:delivered|relayed)|delivery (?:was |has been )?success|successful(?:ly)? (?:mail )?deliver|erfolgreich (?:zugestellt|[üu]bermittelt)|relayed to non-DSN-aware|remis avec succ[èe]s/i;

/** Returns the action for all recipients of a bounce that is still being retried or was delivered, or else `null`. */
export function actionInText({field, ownText}: BounceText): ReportAction | null {
	const text = ownText.slice(0, 8192).replace(/\s+/g, ' ');
	if (retryPhrase.test(text) && (delaySubject.test(field('subject')) || !giveUpPhrase.test(text))) {
		return 'delayed';
	}
	return successPhrase.test(`${field('subject')} ${text}`) && !failureWord.test(text) ? 'delivered' : null;
}

const failureWord = /not (?:be )?(?:successfully )?deliver|undeliver|fail(?:ed|ure)|permanent|rejected/i;

/** Returns `delivered` if the reply in the text accepts the message for this recipient. */
export function deliveredAction({code}: Evidence): ReportAction | null {
	return code !== null && code < 300 ? 'delivered' : null;
}
