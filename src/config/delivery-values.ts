import {allowed, type Parser, value} from './parsed.ts';
import {count, duration} from './parsers.ts';

/** Waits in milliseconds after the 1st, 2nd … failed try. */
export type RetrySchedule = {readonly waits: readonly number[]; readonly repeatLast: boolean};
/** A fixed window; null is no limit. */
export type RateLimit = {readonly requests: number; readonly windowMs: number};
export type WebhookConcurrency = {readonly perEndpoint: number; readonly total: number};

/** The waits for each step of an SMTP session, milliseconds (RFC 5321 §4.5.3.2). */
export const smtpTimeoutDefaults = {
	connect: 30_000,
	greeting: 300_000,
	ehlo: 300_000,
	starttls: 60_000,
	mail: 300_000,
	rcpt: 300_000,
	data: 120_000,
	block: 180_000,
	dot: 600_000,
	rset: 20_000,
	quit: 5000,
};
export type SmtpTimeouts = Readonly<typeof smtpTimeoutDefaults>;

const wait = duration(1);

/** `1m,5m,4h*`: a `*` at the end repeats the last wait. */
export const retrySchedule: Parser<RetrySchedule> = (text, cwd) => {
	const repeatLast = text.endsWith('*');
	const waits: number[] = [];
	for (const part of (repeatLast ? text.slice(0, -1) : text).split(',')) {
		const parsed = wait(part.trim(), cwd);
		if (!parsed.ok) {
			return allowed('use waits between commas, * after the last to repeat it, such as 1m,5m,4h*');
		}

		waits.push(parsed.value);
	}

	return value({waits, repeatLast});
};

/** `connect=30s,dot=10m`: any subset; the others keep their defaults. */
export const smtpTimeouts: Parser<SmtpTimeouts> = (text, cwd) => {
	const timeouts = {...smtpTimeoutDefaults};
	for (const part of text.split(',')) {
		const [name = '', length = '', ...rest] = part.trim().split('=');
		const parsed = wait(length, cwd);
		if (!parsed.ok || rest.length > 0 || !isStep(name)) {
			return allowed(`use step=duration between commas, the steps are ${Object.keys(smtpTimeoutDefaults).join(' ')}`);
		}

		timeouts[name] = parsed.value;
	}

	return value(timeouts);
};

function isStep(name: string): name is keyof SmtpTimeouts {
	return Object.hasOwn(smtpTimeoutDefaults, name);
}

/** `6000/60` is requests per window in seconds; `0` is no limit. */
export const rateLimit: Parser<RateLimit | null> = (text, cwd) => {
	if (text === '0') {
		return value(null);
	}

	const [requests, seconds] = pair(text, cwd, count(1, 1_000_000_000), count(1, 86_400));
	return requests === undefined || seconds === undefined
		? allowed('use requests/seconds such as 6000/60, or 0 for no limit')
		: value({requests, windowMs: seconds * 1000});
};

/** `4/256`: in flight per endpoint, and in all. */
export const webhookConcurrency: Parser<WebhookConcurrency> = (text, cwd) => {
	const [perEndpoint, total] = pair(text, cwd, count(1, 1000), count(1, 10_000));
	return perEndpoint === undefined || total === undefined || perEndpoint > total
		? allowed('use per-endpoint/in-all such as 4/256, the first not above the second')
		: value({perEndpoint, total});
};

function pair(text: string, cwd: string, left: Parser<number>, right: Parser<number>): [number?, number?] {
	const parts = text.split('/');
	const first = left(parts[0] ?? '', cwd);
	const second = right(parts[1] ?? '', cwd);
	return parts.length === 2 && first.ok && second.ok ? [first.value, second.value] : [];
}
