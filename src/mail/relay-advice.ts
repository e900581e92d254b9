/** What to do about a refusal. */
type Advice = readonly [refusal: RegExp, advice: string];

const url = 'the relay URL (MAILCTL_RELAY_URL, or the route of the workspace)';

const withoutLogin = `add user and password to ${url}: the relay does not accept mail without a login`;

/** The first match applies. Providers' texts precede the codes, because one code stands for many causes. */
const advices: readonly Advice[] = [
	[/^the smarthost \S+ was not found/i, `correct the host in ${url}, and check DNS on this machine`],
	[
		/^the password is not sent over an unencrypted/i,
		'use smtps://, or a port that offers STARTTLS: a password is sent unencrypted only within this machine (tls=none)',
	],
	[
		/^the server offers no way to log in/i,
		`use the port for submission, 587 or 465; if the relay recognizes this machine by its address, remove user and password from ${url}`,
	],
	[
		/\b(?:does not offer|refused to start) TLS\b/i,
		`use a port that offers TLS (587, or 465 with smtps://), or lower tls= in ${url}`,
	],
	[
		/\bcertificates?\b|\bself-signed\b|\bauthority that we trust\b/i,
		`use the name in the certificate as the host, or add its CA with MAILCTL_CA_FILE; tls= in ${url} sets what is required`,
	],
	[/\bmust issue a? ?STARTTLS|^538\b|\bencryption required\b/i, `use tls=required or smtps:// in ${url}`],
	[
		/\b(?:application|app)[- ](?:specific )?password|\b5\.7\.9\b|log ?in (?:with|via) your web browser/i,
		`create an app password at the provider and use it in ${url}`,
	],
	[
		/\bSmtpClientAuthentication\b|\bSMTP AUTH(?:entication)? (?:is )?disabled|\bbasic auth\w* is disabled/i,
		'the provider does not allow this account to log in by SMTP: have its administrator allow it',
	],
	[
		/\bthrottl|\b(?:daily|hourly|monthly|sending)\b.{0,20}\b(?:quota|limit)/i,
		'the provider accepts no more for now: sending resumes when it does; raise the limit there if this happens often',
	],
	[/\bnot logged in\b/i, withoutLogin],
	[
		/\b(?:quota|credits?|billing|payment|trial|plan)\b|\bsuspended\b|\bdeactivated\b|\bnot (?:yet )?(?:activated|active)\b|\b(?:account|user)\b.{0,40}\b(?:disabled|locked|blocked|paused)|\bSendingPaused|\(HTTP 402\)/i,
		'sign in at the provider: it has stopped the account, and states the reason there',
	],
	[
		/\btoo many\b.{0,40}\b(?:log-?ins?|auth\w*|attempts|failures)/i,
		`check user and password in ${url}; after too many failed logins, the provider refuses all logins for a while`,
	],
	[
		/\bblocked\b|\b(?:black|block|deny)-?list|\blisted\b|\bspamhaus\b|\breputation\b|\b(?:ip|address|host|client)\b.{0,60}\b(?:not (?:allowed|authori[sz]ed|permitted|whitelisted)|denied|banned|rejected)|\bunauthori[sz]ed (?:ip|client|host)|\bno access for this ip\b/i,
		'the relay refuses the address of this machine: ask its provider to allow it, and send them this reply; mailctl doctor checks the blocklists',
	],
	[/\(HTTP 404\)/, `correct host, domain or region in ${url}`],
	[/\(HTTP 40[13]\)/, `check the key in ${url}, and that it may send`],
	[
		/^454\b/,
		'the relay cannot check logins at the moment: mailctl will try again; if this persists, ask its provider, or check user and password',
	],
	[/^5(?:30|50)\b.*\bauth|^530\b|\b(?:log ?in|authenticat\w+) (?:is )?(?:required|first)/i, withoutLogin],
	[/^53[45]\b|\bcredential|\bpassword\b|\bauth/i, `check user and password in ${url}; both are percent-encoded`],
	[/^[45]\d\d\b/, 'the relay refuses this machine before it logs in: ask its provider, and send them this reply'],
];

const link = /\bhttps?:\/\/[^\s<>"')\]]+[^\s<>"')\].,;]/i;

/**
 * Returns what an operator can do about a relay that refuses this machine, as a clause. `reason` is the relay's reply
 * with the code first, or mailctl's own text if there was none.
 */
export function relayAdvice(reason: string): string {
	const match = advices.find(([refusal]) => refusal.test(reason));
	const page = link.exec(reason)?.[0];
	const advice = match?.[1] ?? `check host, port, user and password in ${url}`;
	return page === undefined ? advice : `${advice}; see ${page}`;
}
