import type {Knex} from 'knex';
import {notAsked, overBudget} from '../certificates/renewal.ts';
import type {Clock} from '../kit/clock.ts';
import {dayMs} from '../kit/time.ts';
import {type Certificate, listCertificates} from '../store/certificates.ts';
import {type Check, type Found, fail, ok, warn} from './finding.ts';

const soonMs = 14 * dayMs;
const fix = 'let the CA reach the port, and this machine the CA; then mailctl certificate renew';
const day = (time: string): string => `${time.slice(0, 16).replace('T', ' ')} UTC`;

/** What is to be said of a certificate that a CA gives by itself. */
export function judgeCertificate(
	{name, not_before: from, not_after: until, fault, unused}: Certificate,
	now: number,
): Found {
	const why = fault === null ? '' : `: ${fault}`;
	if (unused === overBudget) {
		return warn(`${name} has no certificate yet: ${unused}`, 'wait for tomorrow');
	}
	if (unused !== null) {
		return warn(`no certificate is asked for: ${unused}`, 'correct its address in DNS, or remove the name');
	}
	if (from === null || until === null) {
		return warn(`${name} has no certificate yet${why}`, fault === null ? 'wait a minute' : fix);
	}
	const [left, life] = [Date.parse(until) - now, Date.parse(until) - Date.parse(from)];
	if (left <= 0) {
		return fail(`the certificate of ${name} ended ${day(until)}${why}`, fix);
	}
	// Of one that lives for days alone, a quarter is soon.
	if (left < Math.min(soonMs, life / 4)) {
		return (fault === null ? warn : fail)(`the certificate of ${name} ends ${day(until)}${why}`, fix);
	}
	const held = `${name} has a certificate until ${day(until)}`;
	return fault === null ? ok(held) : warn(`${held}, and was not renewed${why}`, fix);
}

/** Those that a CA gives, each of them. */
export function acmeCheck(reader: Knex, clock: Clock): Check {
	return {
		name: 'certificates',
		why: 'Without its certificate a name is reached by no https link, and SMTP to it goes unencrypted.',
		async look() {
			const rows = (await listCertificates(reader)).filter(({unused}) => unused !== notAsked);
			return rows.length === 0
				? [
						warn(
							'MAILCTL_ACME is true and no certificate was asked for',
							'start the daemon, which asks at once',
						),
					]
				: rows.map(row => judgeCertificate(row, clock.now()));
		},
	};
}
