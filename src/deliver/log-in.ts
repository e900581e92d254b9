import {printable} from '../mail/smtp-reply.ts';
import {base64, createConceal, type Login, plainResponse} from '../net/log-in.ts';
import type {Answer, SmtpConnection} from './smtp-connection.ts';
import {type Stop, stopped} from './stop.ts';

/**
 * Logs in at a smarthost with the mechanisms it offers (RFC 4954): PLAIN, else LOGIN. Null: done. What the server repeats
 * of the password is masked, to the end of the connection where it refuses.
 */
export async function logIn(
	connection: SmtpConnection,
	login: Login,
	offered: readonly string[],
	timeoutMs: number,
): Promise<Stop | null> {
	const conceal = createConceal(login);
	connection.changeReplies(({code, lines}) => ({code, lines: lines.map(conceal)}));
	const stop = await authenticate(connection, login, offered, timeoutMs);
	if (stop === null) {
		connection.changeReplies(null);
	}

	return stop;
}

async function authenticate(
	connection: SmtpConnection,
	login: Login,
	offered: readonly string[],
	timeoutMs: number,
): Promise<Stop | null> {
	const say = (line: string): Promise<Answer> => {
		connection.write([`${line}\r\n`], 1);
		return connection.read(timeoutMs);
	};

	if (offered.includes('PLAIN')) {
		return unlessCode(235, await say(`AUTH PLAIN ${plainResponse(login)}`));
	}

	if (!offered.includes('LOGIN')) {
		const text = `the server offers no way to log in that we know (${offered.join(' ') || 'none'})`;
		return {by: 'login', phase: 'auth', text: printable(text)};
	}

	const steps: ReadonlyArray<readonly [line: string, code: number]> = [
		['AUTH LOGIN', 334],
		[base64(login.user), 334],
		[base64(login.password), 235],
	];
	for (const [line, code] of steps) {
		const stop = unlessCode(code, await say(line));
		if (stop !== null) {
			return stop;
		}
	}

	return null;
}

function unlessCode(code: number, answer: Answer): Stop | null {
	return 'lost' in answer || answer.code !== code ? stopped('auth', answer) : null;
}
