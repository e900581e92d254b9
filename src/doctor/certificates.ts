import type {Knex} from 'knex';
import type {Clock} from '../kit/clock.ts';
import {dayMs} from '../kit/time.ts';
import {notAsked, overBudget} from '../resources/certificates/renewal.ts';
import {type Certificate, listCertificates} from '../resources/certificates/store.ts';
import {type Check, type CheckResult, fail, ok, warn} from './finding.ts';

const soonMs = 14 * dayMs;
const fix =
	'check that the CA can reach the port and this machine can reach the CA, then run mailctl certificate renew';
const day = (time: string): string => `${time.slice(0, 16).replace('T', ' ')} UTC`;

/** Judges one name's certificate from the ACME certificate authority. */
export function judgeCertificate(
	{name, not_before: from, not_after: until, fault: problem, unused}: Certificate,
	now: number,
): CheckResult {
	const why = problem === null ? '' : `: ${problem}`;
	if (unused === overBudget) {
		return warn(`${name} has no certificate yet: ${unused}`, 'wait until tomorrow');
	}
	if (unused !== null) {
		return warn(`no certificate is requested: ${unused}`, 'fix its address in DNS, or remove the name');
	}
	if (from === null || until === null) {
		return warn(`${name} has no certificate yet${why}`, problem === null ? 'wait a minute' : fix);
	}
	const remainingMs = Date.parse(until) - now;
	const lifetimeMs = Date.parse(until) - Date.parse(from);
	if (remainingMs <= 0) {
		return fail(`the certificate of ${name} expired ${day(until)}${why}`, fix);
	}
	// A certificate that is valid only for days is due when a quarter of its lifetime remains.
	if (remainingMs < Math.min(soonMs, lifetimeMs / 4)) {
		return (problem === null ? warn : fail)(`the certificate of ${name} expires ${day(until)}${why}`, fix);
	}
	const detail = `${name} has a certificate valid until ${day(until)}`;
	return problem === null ? ok(detail) : warn(`${detail}, but renewal failed${why}`, fix);
}

/** Checks every certificate that mailctl gets by ACME. */
export function acmeCheck(reader: Knex, clock: Clock): Check {
	return {
		name: 'certificates',
		why: 'Without a certificate, https links to a name fail and SMTP to it is unencrypted.',
		async run() {
			const rows = (await listCertificates(reader)).filter(({unused}) => unused !== notAsked);
			return rows.length === 0
				? [
						warn(
							'MAILCTL_ACME is true but no certificate has been requested',
							'start the daemon; it requests one at once',
						),
					]
				: rows.map(row => judgeCertificate(row, clock.now()));
		},
	};
}
