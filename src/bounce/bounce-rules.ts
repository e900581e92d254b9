import type {BounceCategory, Phase} from '../mail/outcome.ts';

/** A rule matches when everything it names does. */
export type BounceRule = {
	/** The enhanced code without its class (`1.1`): the reply's first digit tells the class. */
	readonly detail?: RegExp;
	/** The reply code. */
	readonly code?: RegExp;
	/** The name of the host that spoke. */
	readonly host?: RegExp;
	/** The reply's text without addresses. */
	readonly text?: RegExp;
	readonly phase?: Phase;
	readonly category: BounceCategory;
};

const gone = '(not found|does(n.?t| not) exist|unknown|invalid|no longer)';
const shut = '(disabled|inactive|deactivated|discontinued|suspended)';
const whose = '(mailbox|recipient|account|address|user)';

/**
 * How a refusal is read: the first rule that matches decides. What the server says of us comes before what it says of
 * the recipient, texts come before codes where codes are known to lie, codes before weaker texts.
 */
export const bounceRules: readonly BounceRule[] = [
	// Texts that hold a word of another rule.
	{text: /account or domain may not exist/i, category: 'unknown_user'},
	{text: /not listed in domino/i, category: 'unknown_user'},
	// OpenSMTPD of an address that is not in its table of virtual users; nobody else says 524.
	{code: /^524$/, text: /mailing list expansion problem/i, category: 'unknown_user'},
	{text: /group .{0,80}may not exist.{0,20}permission/i, category: 'policy'},
	{text: /unknown user/i, host: /\.docomo\.ne\.jp$/i, category: 'undetermined'},
	{text: /domain of sender|sender .{0,60}(reject|denied|blocked|verif|does not exist|not found)/i, category: 'sender'},
	{text: /invalid sender|RFC ?5322/i, category: 'sender'},

	// Of us, whatever the code says.
	{text: /spamhaus|spamcop|\bdnsbl|\brbl\b|black ?list|block ?list|barracuda|sorbs|cloudmark/i, category: 'block'},
	{text: /listed (at|by|in)\b|blocked using|banned send|S3140|S3150|\[TSS?0\d\]|IPTS0/i, category: 'block'},
	{text: /RLY:|RTR:|CON:B|DYN:T/, category: 'block'},
	{text: /reputation/i, category: 'reputation'},
	{text: /reverse dns|\bptr\b|hostname lookup|cannot find your (reverse )?hostname/i, category: 'auth'},
	{text: /relay(ing)? (access )?(denied|not permitted)|rcpthosts|authentication required/i, category: 'relay_denied'},
	{text: /\bspf\b|\bdkim\b|\bdmarc\b|authenticat/i, category: 'auth'},
	{text: /too many (connections|recipients|messages)|throttl|rate limit|too (fast|quickly)|IB607/i, category: 'rate'},
	{text: /grey ?list|gray ?list/i, category: 'greylist'},
	{text: /virus|malware|phish/i, category: 'virus'},
	{text: /spam|junk|unsolicited|content (rejected|filter)|uribl|surbl|OFR_?50\d/i, category: 'spam_content'},
	{text: /policy|prohibited|attachment/i, category: 'policy'},

	// Of size, even under a code that says "no such user".
	{text: /over ?quota|quota (is )?(exceeded|full)|exceed.{0,30}(quota|storage)|OFR_?417/i, category: 'mailbox_full'},
	{text: /(mailbox|storage|disk) (is |was )?full|insufficient (system )?storage/i, category: 'mailbox_full'},
	{text: /(message|mail) (size|is too (big|large)|too (big|large))|size limit/i, category: 'too_big'},

	// Codes that decide (RFC 3463, the IANA registry, large providers).
	{detail: /^1\.10$/, host: /\.outlook\.com$/i, category: 'unknown_user'},
	{detail: /^4\.1$/, text: /access denied/i, host: /\.protection\.outlook\.com$/i, category: 'unknown_user'},
	{detail: /^1\.[134]$/, category: 'unknown_user'},
	{detail: /^1\.6$/, category: 'moved'},
	{detail: /^1\.(2|10)$/, category: 'unknown_domain'},
	{detail: /^1\.[78]$|^7\.27$/, category: 'sender'},
	{detail: /^2\.1$/, text: /receiving mail at a rate/i, category: 'rate'},
	{detail: /^2\.1$/, text: new RegExp(`${shut}|${gone}`, 'i'), category: 'disabled'},
	{detail: /^2\.2$/, category: 'mailbox_full'},
	{detail: /^2\.3$|^3\.4$/, category: 'too_big'},
	{detail: /^3\.[12]$/, category: 'system'},
	{detail: /^4\.4$/, text: /host not found|nxdomain/i, category: 'unknown_domain'},
	{detail: /^4\.7$/, category: 'expired'},
	{detail: /^4\.([0-6]|14|316|317)$/, category: 'network'},
	{detail: /^5\.0$/, text: /mailbox unavailable/i, category: 'unknown_user'},
	{detail: /^5\.3$/, category: 'rate'},
	{detail: /^5\.[1-9]/, category: 'protocol'},
	{detail: /^6\./, category: 'protocol'},
	{detail: /^7\.1[378]$/, category: 'disabled'},
	{detail: /^7\.([579]|2[0-6]|29|3[02]|40|509|515|57)$/, category: 'auth'},
	{detail: /^7\.(28|38|511|6\d\d|7[0-4]\d|750|105|124|129|133|193|520)$/, category: 'block'},

	// Of the recipient, where no code decided. "Recipient address rejected:" alone says nothing: a policy may follow.
	{text: new RegExp(`${whose}.{0,40}${shut}`, 'i'), category: 'disabled'},
	{text: /(user (is )?unknown|unknown (user|recipient|mailbox))/i, category: 'unknown_user'},
	{text: /no such (user|recipient|mailbox|person|address)|no mailbox/i, category: 'unknown_user'},
	{text: new RegExp(`${whose}.{0,40}${gone}`, 'i'), category: 'unknown_user'},
	{text: /address rejected: (user unknown|undeliverable|access denied)/i, category: 'unknown_user'},
	{text: /not (a known user|our customer)/i, category: 'unknown_user'},
	// Exim of an address that none of its routers takes; of a sender it adds `Sender verify failed`.
	{text: /unrouteable address/i, phase: 'rcpt', category: 'unknown_user'},
	{text: /boite inconnue|adresse .{0,60}invalide|nie istnieje/i, category: 'unknown_user'},

	// What a code says at least.
	{code: /^421$/, category: 'rate'},
	{code: /^4/, detail: /^7\.1$/, category: 'greylist'},
	{detail: /^7\./, category: 'policy'},
	{detail: /^3\./, category: 'system'},
	{detail: /^4\./, category: 'network'},
	{code: /^4/, phase: 'rcpt', text: /try (again|later)|retry later/i, category: 'greylist'},
	{code: /^552$/, category: 'mailbox_full'},
	{code: /^5/, phase: 'dot', category: 'spam_content'},
];
