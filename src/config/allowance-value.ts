import {allowed, type Parser, value} from './parsed.ts';
import {count, size} from './parsers.ts';

/** What a client may bring in an hour. */
export type InboundAllowance = {readonly mails: number; readonly bytes: number};

/** `1000/200MiB`: mails, and octets of all of them. */
export const inboundAllowance: Parser<InboundAllowance> = (text, cwd) => {
	const [mails, bytes, ...rest] = text.split('/');
	const most = count(1, 1_000_000_000)(mails ?? '', cwd);
	const octets = size(1)(bytes ?? '', cwd);
	return most.ok && octets.ok && rest.length === 0
		? value({mails: most.value, bytes: octets.value})
		: allowed('use mails/size such as 1000/200MiB, neither of them 0');
};
