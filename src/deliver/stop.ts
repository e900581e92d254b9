import type {Phase} from '../mail/outcome.ts';
import {type SmtpReply, smtpReply} from '../mail/smtp-reply.ts';
import type {TlsFailure} from '../mail/tls-result.ts';
import type {RawReply} from './reply-reader.ts';
import type {Answer, Lost} from './smtp-connection.ts';

/** Where a conversation ended short of acceptance, and by what. `verdict` says what follows. */
export type Stop =
	/** By a reply of the server. */
	| {readonly by: 'reply'; readonly phase: Phase; readonly reply: SmtpReply}
	/** By a connection that could not be made, broke, or took too long. */
	| {
			readonly by: 'loss';
			readonly phase: Phase;
			readonly text: string;
			readonly errno?: string;
			readonly cause?: Lost['cause'];
	  }
	/** By a TLS handshake that failed, or TLS that was demanded and not offered. */
	| {
			readonly by: 'tls';
			readonly phase: 'starttls';
			readonly text: string;
			readonly failure: TlsFailure;
			readonly errno?: string | undefined;
	  }
	/** By us: the message is larger than the host says it takes. */
	| {readonly by: 'size'; readonly phase: 'ehlo'; readonly text: string}
	/** By us: an address needs SMTPUTF8, the host does not offer it. */
	| {readonly by: 'utf8'; readonly phase: 'ehlo'; readonly text: string}
	/** By us: no authentication mechanism keeps the password safe. */
	| {readonly by: 'login'; readonly phase: 'auth'; readonly text: string};

/** The stop that an unwelcome answer makes. */
export function stopped(phase: Phase, answer: Answer): Stop {
	if ('lost' in answer) {
		const {lost: text, errno, cause} = answer;
		return {by: 'loss', phase, text, ...(errno === undefined ? {} : {errno}), ...(cause === undefined ? {} : {cause})};
	}

	return {by: 'reply', phase, reply: readable(answer)};
}

export function readable(reply: RawReply): SmtpReply {
	return smtpReply(reply.code, reply.lines);
}

/**
 * A host counts a connection until it has processed its end: a new one at that moment would exceed the limit and be
 * refused. After this time, milliseconds, a connection counts as gone.
 */
export const goneMs = 50;
