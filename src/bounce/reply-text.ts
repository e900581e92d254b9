import type {Phase} from '../mail/outcome.ts';

const foreign = /[^\x00-\x7f]/;
const accents = /[\u0300-\u036f]/g;
const address = /[^\s<>()[\]{};:,"'|]{1,64}@(?:[\w\u0080-\uffff-]{1,63}\.){0,8}[\w\u0080-\uffff-]{1,63}/g;
const linkPath = /\b(https?:\/\/[^\s/<>"')]{1,255})[^\s<>"')]{1,2000}/gi;
const hostWithAddress = /\b(?:unknown|[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63}){1,8})\.?[ (]{0,2}\[[\da-f.:]{3,45}\]\)?/gi;
const lineCode = /(?<=\s)[245]\d\d-(?:#?[245]\.\d{1,3}\.\d{1,3}[ :-]?)?/g;
const speaker =
	/\bhost\s{1,3}(?:\S{1,255}\s{1,3})?said:|\bwhile talking to \S{1,255}|\bremote server returned(?! unknown)/gi;
const command = /\(in reply to [^()]{1,60}\)/gi;
const emptyBrackets = /<\s?>|\(\s?\)|\[\s?\]/g;
// `BAD_RECIPIENT`, `user_unknown`.
const joints = /(?<=[a-z])_(?=[a-z])/gi;
const blanks = /\s+/g;

/** Letters without accents: a rule need not know how a host writes them (`boîte`, `boite`). */
export function unaccented(text: string): string {
	return foreign.test(text)
		? text
				.normalize('NFD')
				.replace(accents, '')
				.normalize('NFC')
				.replace(/[łŁ]/g, 'l')
				.replaceAll('ı', 'i')
				.replaceAll('ß', 'ss')
				.replaceAll('’', "'")
		: text;
}

/**
 * A reply as rules see it: without what may hold any word (addresses, paths of links, names of hosts beside their IP
 * addresses), without the codes of its lines, which cut sentences in two, blanks as one.
 */
export function plainText(text: string): string {
	return unaccented(text)
		.replace(linkPath, '$1')
		.replace(address, '')
		.replace(hostWithAddress, ' ')
		.replace(lineCode, ' ')
		.replace(speaker, ' ')
		.replace(command, '')
		.replace(emptyBrackets, '')
		.replace(joints, ' ')
		.replace(blanks, ' ')
		.trim();
}

/** How mailers say how far the session came, where their lines are broken: Postfix, Exim, qmail, DragonFly, OpenSMTPD, Sendmail. */
const words: ReadonlyArray<readonly [RegExp, Phase]> = [
	[
		/after (?:sending )?(?:pipelined )?RCPT|in reply to (?:the )?RCPT|RCPT[ _]TO command|\bRCPT command|RCPT_TO|SMTP:RCPT/i,
		'rcpt',
	],
	[
		/did not like (?:our )?RCPT|does not like recipient|recipient was rejected|response to RCPT|RCPT TO response/i,
		'rcpt',
	],
	[
		/after (?:sending )?(?:pipelined )?MAIL|in reply to (?:the )?MAIL|MAIL FROM command|\bMAIL command\b|\[MAIL_FROM\]|SMTP:MAIL/i,
		'mail',
	],
	[/did not like (?:our )?MAIL|sender was rejected|response to MAIL/i, 'mail'],
	[
		/after (?:pipelined )?(?:end of (?:data|message)|sending data block)|in reply to (?:the )?end of (?:DATA|message)|final DATA|failed after I sent the message|\[BODY\]|SMTP:(?:BODY|EOM)/i,
		'dot',
	],
	[
		/in reply to (?:the )?DATA|after (?:sending )?(?:pipelined )?DATA\b|did not like (?:our )?DATA|failed on DATA|\bDATA command\b|\[DATA\]|SMTP:DATA/i,
		'data',
	],
	[/after (?:sending )?(?:EHLO|HELO)|in reply to (?:the )?(?:EHLO|HELO)|(?:EHLO|HELO) command/i, 'ehlo'],
	[/after STARTTLS|in reply to (?:the )?STARTTLS/i, 'starttls'],
	[
		/after initial connection|greeting failed|refused to talk to me|while receiving the initial server greeting/i,
		'greeting',
	],
];

/** A transcript: the command that was refused. */
const refused = /(?:^| )>>> ?([a-z]{4,8}|\.)(?=[ :]|$)(?:(?!>>>).){0,600}?<<< ?[45]\d\d/i;
const commands: Readonly<Record<string, Phase>> = {
	rcpt: 'rcpt',
	mail: 'mail',
	// Sendmail shows its last command, and the dot is not a command.
	data: 'dot',
	'.': 'dot',
	ehlo: 'ehlo',
	helo: 'ehlo',
	starttls: 'starttls',
};

/** How far the session in a text came; null if the text does not say. */
export function phaseIn(text: string): Phase | null {
	const line = text.replace(/\s+/g, ' ');
	const spoken = words.find(([pattern]) => pattern.test(line))?.[1];
	return spoken ?? commands[refused.exec(line)?.[1]?.toLowerCase() ?? ''] ?? null;
}

/** Longer replies are distinguished by their beginnings. */
const longest = 300;
const code = /^[245]\d\d$/;
/** Of a reply of several lines. */
const firstOfMany = /^([245]\d\d)-/;
const enhancedCode = /^[245]\.\d{1,3}\.\d{1,3}$/;
const digit = /\d/;
const variable = '…';

/**
 * A reply's words without the recipient: no addresses, numbers, ids or host names with digits, so that equal replies
 * have equal words. Codes at its beginning stay.
 */
export function wordingOf(reply: string): string {
	const words = plainText(reply.slice(0, longest)).replace(firstOfMany, '$1 ').split(' ');
	const first = code.test(words[0] ?? '') ? 1 : 0;
	const codes = enhancedCode.test(words[first] ?? '') ? first + 1 : first;
	return words
		.map((word, index) => (index >= codes && digit.test(word) ? variable : word))
		.filter((word, index, all) => word !== variable || all[index - 1] !== variable)
		.join(' ');
}
