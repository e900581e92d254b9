import type {Evidence} from '../../mail/bounce.ts';
import type {ReportAction} from '../../mail/report.ts';
import type {BounceText} from './bounce-text.ts';

const daemon =
	/mailer.?daemon|mail.?daemon|post_?master|post_?office|mail (?:delivery|deliver|administrator|system)\s*[<("]|mail.?delivery|delivery (?:sub)?system|(?:system|mail|server|email) administrator|anti.?virus|returned.?mail|bounces?\b|mdaemon|undeliver|nondeliver|(?:^|\W)(?:postmast|maildaemon|mdaemon|symail|mailsystem|mailserver|mailgw|imss|interscan|administrator|sysadmin)@/i;
const subject = new RegExp(
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
const reply = /^\s*(?:re|aw|antw|sv|fwd?|wg|tr|rv|r|enc|vs)\s*(?:\[\d+\])?\s*:/i;
// Names that a person never writes under.
const office = /(?:^|[<\s"])(?:post_?master|mdaemon)@/i;
// Sendmail puts its own name where no return path is.
const noPath = /^<\s*>$|^<?mailer-daemon(?:[@>]|$)/i;
const spread = ['list-id', 'list-unsubscribe', 'list-post', 'x-campaign', 'x-mailinglist'];

const personal =
	/^\s*(?:hi|hello|hey|dear|hallo|guten tag|liebe|bonjour|hola|ciao)\b(?!\. (?:this|the mta)|!?\s{1,4}this is)|\bI (?:got|get|received|keep|tried|sent)\b|\b(?:thanks|cheers|regards)\b|\?(?:\s|$)/i;

const machineName =
	/(?:^|[<\s.-])(?:no-?reply|do-?not-?reply|admin|root|e?mail|smtp|mta|server|system|gateway|anti|scan|alert|notif|delivery|robot|auto)/i;
// What daemons write to their postmaster of mail that others sent, sums of all days among it.
const notice =
	/^Postfix SMTP (?:server|client): errors|log summar|logwatch|statistics|^cron\b|(?:quarantine|spam|mail) (?:digest|summary)|^report domain:|\bdmarc\b/i;

/** The signs of a daemon, and those of a person or a list. */
export function daemonSigns({field, returned}: BounceText) {
	const nullPath = noPath.test(field('return-path'));
	const answers = reply.test(field('subject'));
	const isOffice = office.test(field('from')) && subject.test(field('subject'));
	return {
		from: daemon.test(field('from')) || daemon.test(field('sender')),
		/** And its name is unique to daemons. */
		daemon: /mailer.?daemon|mail.?delivery|delivery (?:sub)?system/i.test(field('from')),
		/** By the name of a machine, if not of one that only daemons have. */
		machine: machineName.test(field('from')),
		subject: subject.test(field('subject')),
		/** It has no return path, as RFC 5321 §4.5.5 wants it. */
		nullPath,
		/** It answers a mail, by its own words. */
		replies: /^auto-replied/i.test(field('auto-submitted')),
		/** It has no return path and no author. */
		anonymous: nullPath && /^(?:"[^"]{0,60}" )?(?:<\s*>)?$/.test(field('from').trim()),
		/** Any sign that a machine wrote it. */
		trace:
			nullPath ||
			/^auto-/i.test(field('auto-submitted')) ||
			field('x-failed-recipients') !== '' ||
			/report-type\s*=\s*"?delivery-status/i.test(field('content-type')),
		/** It gives a mail back. */
		returned: /\S/.test(returned),
		// Lists hand on what comes to their own address.
		other: answers || (!isOffice && spread.some(name => field(name) !== '')),
	};
}

/** Whether a daemon may have written it. A person's mail is not a bounce, even if it quotes one. */
export function mayBeBounce(bounce: BounceText): boolean {
	const {daemon, from, machine, subject, trace, returned, other} = daemonSigns(bounce);
	if ((other && !daemon) || notice.test(bounce.field('subject'))) {
		return false;
	}
	const isMachine = returned || bounce.field('from') === '' || machine;
	return from || trace || (subject && isMachine && !personal.test(bounce.said.slice(0, 4096)));
}

const goesOn = new RegExp(
	[
		'(?:has|have) not yet been (?:delivered|sent)|has been delayed|is delayed|was delayed|being delayed|delivery (?:is )?delayed|message (?:has been )?delayed',
		'will (?:keep|continue|be|retry) (?:trying|to (?:try|retry|attempt)|retried|re-?attempted|tried again)|(?:keep|continue) (?:re)?trying|attempts? will (?:continue|be repeated)',
		'still (?:undelivered|being retried|in the queue|trying)|warning message only|this is (?:a|only a) warning|no need to resend|do(?:es)? not need to (?:be )?resen[dt]',
		'temporary problem delivering|delivery incomplete|could not send message for past|will retry|tente?r(?:a|ons) (?:encore|de nouveau)|weiterhin versuch|wird (?:weiter|erneut) versuch|seguir[áa] intentando',
		'transient non-fatal errors|配信が遅れ|配送が遅延',
	].join('|'),
	'i',
);
const gaveUp =
	/(?:giv(?:en|ing) up|gave up|permanent (?:error|fail|fatal)|failed permanently|not going to try|no longer|final(?:ly)? fail|retry time(?:out)? exceeded|will not (?:be )?(?:retr|continue|try)|in the queue too long|no further)/i;
const warns = /\b(?:delayed|warning|delivery incomplete|delay)\b|verzögert|en retard|retrasad|遅延/i;

const arrived =
	/(?:has been|was|were|is|been|be) (?:successfully |correctly )(?:delivered|relayed)|successfully (?:delivered|relayed)|delivery (?:was |has been )?success|successful(?:ly)? (?:mail )?deliver|erfolgreich (?:zugestellt|[üu]bermittelt)|relayed to non-DSN-aware|remis avec succ[èe]s/i;

/** The action for all recipients of a bounce: the mail is still under way, or it arrived. Null: neither. */
export function actionOf({field, said}: BounceText): ReportAction | null {
	const text = said.slice(0, 8192).replace(/\s+/g, ' ');
	if (goesOn.test(text) && (warns.test(field('subject')) || !gaveUp.test(text))) {
		return 'delayed';
	}
	return arrived.test(`${field('subject')} ${text}`) && !failed.test(text) ? 'delivered' : null;
}

const failed = /not (?:be )?(?:successfully )?deliver|undeliver|fail(?:ed|ure)|permanent|rejected/i;

/** The mail for one recipient arrived, according to the reply in the text. */
export function arrival({code}: Evidence): ReportAction | null {
	return code !== null && code < 300 ? 'delivered' : null;
}
