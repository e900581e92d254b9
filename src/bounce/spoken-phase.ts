import type {Phase} from '../mail/outcome.ts';

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
