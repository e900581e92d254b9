import {printable} from '../mail/smtp-reply.ts';
import type {Answer, SmtpConnection} from './smtp-connection.ts';
import {type Stop, stopped} from './stop.ts';

const base64 = (text: string): string => Buffer.from(text).toString('base64');

/** Logs in at a smarthost with the mechanisms it offers (RFC 4954): PLAIN, else LOGIN. Null: done. */
export async function logIn(
	connection: SmtpConnection,
	login: {readonly user: string; readonly password: string},
	offered: readonly string[],
	timeoutMs: number,
): Promise<Stop | null> {
	const say = (line: string): Promise<Answer> => {
		connection.write([`${line}\r\n`], 1);
		return connection.read(timeoutMs);
	};

	const {user, password} = login;
	if (offered.includes('PLAIN')) {
		return unlessCode(235, await say(`AUTH PLAIN ${base64(`\0${user}\0${password}`)}`));
	}

	if (!offered.includes('LOGIN')) {
		const text = `the server offers no way to log in that we know (${offered.join(' ') || 'none'})`;
		return {by: 'login', phase: 'auth', text: printable(text)};
	}

	const steps: ReadonlyArray<readonly [line: string, code: number]> = [
		['AUTH LOGIN', 334],
		[base64(user), 334],
		[base64(password), 235],
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
