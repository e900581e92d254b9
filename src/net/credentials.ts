/** Credentials for a server. */
export type Login = {readonly user: string; readonly password: string};

const mask = '****';
/** Part of a command that a server repeats cut short. */
const base64Run = /[A-Za-z0-9+/]{8,}={0,2}/g;

/** The response of PLAIN (RFC 4616). */
export const plainResponse = ({user, password}: Login): string => base64(`\0${user}\0${password}`);

export const base64 = (text: string): string => Buffer.from(text).toString('base64');

/** Masks what a server's words repeat of a log-in: the password, and what was sent in base64, also a part of it. */
export function conceal(login: Login, words: string): string {
	const {user, password} = login;
	const sent = [plainResponse(login), base64(password), base64(user)].filter(Boolean);
	// As it came, and as base64 without its end.
	const whole = [...sent, ...sent.map(text => text.replace(/=+$/, '')), password].filter(Boolean);
	const longestFirst = whole.toSorted((a, b) => b.length - a.length);
	return longestFirst
		.reduce((text, secret) => text.replaceAll(secret, mask), words)
		.replace(base64Run, run => (sent.some(text => text.includes(run)) ? mask : run));
}
