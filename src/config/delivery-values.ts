import {type RateLimit, readRateLimit} from '../mail/api-key.ts';
import type {RetrySchedule} from '../mail/retry.ts';
import {type SmtpTimeouts, smtpTimeoutDefaults} from '../net/smtp-timeouts.ts';
import {allowed, count, duration, type Parser, value} from './parsers.ts';

type WebhookConcurrency = {readonly perEndpoint: number; readonly total: number};

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
	const timeouts: Record<keyof SmtpTimeouts, number> = {...smtpTimeoutDefaults};
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
export const rateLimit: Parser<RateLimit | null> = text => {
	const limit = readRateLimit(text);
	return limit === undefined ? allowed('use requests/seconds such as 6000/60, or 0 for no limit') : value(limit);
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
