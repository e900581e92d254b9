import {type JsonObject, objectOf, parsedJson} from '../../kit/exact-json.ts';
import type {TlsCount, TlsReport} from '../../mail/aggregate.ts';
import {checkHeader, hostIn, nameIn} from './dmarc-report.ts';

const maxPolicies = 100;
const maxDetails = 1000;
const maxFailures = 20;
const maxSessions = 999_999_999;

/** Policies and results of RFC 8460 §4.3 and §4.4. Reports are untrusted, so other values share one count. */
const policyTypes = ['sts', 'tlsa', 'no-policy-found'];
const resultTypes = [
	'starttls-not-supported',
	'certificate-host-mismatch',
	'certificate-expired',
	'certificate-not-trusted',
	'validation-failure',
	'tlsa-invalid',
	'dnssec-invalid',
	'dane-required',
	'sts-policy-fetch-error',
	'sts-policy-invalid',
	'sts-webpki-invalid',
];

/**
 * Parses a TLS report (RFC 8460 §4.4). Returns the problem with an invalid report, or `null` for another kind of
 * document.
 *
 * @param about domains that its message names, for a report that names none
 */
export function readTlsReport(json: string, about: readonly string[] = []): TlsReport | string | null {
	const parsed = parsedJson(json);
	if (parsed === undefined) {
		return 'it is not JSON';
	}
	const report = objectOf(parsed);
	if (!Array.isArray(report.policies) && report['date-range'] === undefined) {
		return null;
	}
	const policies = objectsIn(report.policies);
	const reportId = textIn(report['report-id']);
	// Google appends the domain to its ids.
	const domains = [...policies.slice(0, maxPolicies).map(domainOf), ...about, /_([^_]+)$/.exec(reportId)?.[1] ?? ''];
	const range = objectOf(report['date-range']);
	const head = checkHeader({
		org: [textIn(report['organization-name']), textIn(report['contact-info'])],
		reportId,
		domain: domains.find(name => hostIn(name)?.includes('.')) ?? '',
		begin: Date.parse(textIn(range['start-datetime'])),
		end: Date.parse(textIn(range['end-datetime'])),
	});
	return typeof head === 'string' ? head : {kind: 'tls', ...head, ...countSessions(policies, head.domain)};
}

/** Counts sessions by policy and result. `cut` is how many policies and failure details are left out. */
function countSessions(policies: readonly JsonObject[], domain: string) {
	const counts = new Map<string, TlsCount>();
	const failures: string[] = [];
	let cut = Math.max(0, policies.length - maxPolicies);

	function add(policy: string, result: string, n: number): void {
		const key = `${policy} ${result}`;
		if (n > 0) {
			counts.set(key, {policy, result, n: Math.min(maxSessions, n + (counts.get(key)?.n ?? 0))});
		}
	}

	for (const entry of policies.slice(0, maxPolicies)) {
		const policyDomain = domainOf(entry);
		if (policyDomain !== '' && hostIn(policyDomain) !== domain) {
			cut++;
			continue;
		}
		const type = wordIn(objectOf(entry.policy)['policy-type'], policyTypes);
		const summary = objectOf(entry.summary);
		add(type, 'success', numberIn(summary['total-successful-session-count']));
		const failed = objectsIn(entry['failure-details']);
		cut += Math.max(0, failed.length - maxDetails);
		let explained = 0;
		for (const detail of failed.slice(0, maxDetails)) {
			const n = numberIn(detail['failed-session-count']);
			explained += n;
			add(type, wordIn(detail['result-type'], resultTypes), n);
			if (failures.length < maxFailures) {
				failures.push(toFailure(detail, n));
			}
		}
		add(type, 'unexplained', numberIn(summary['total-failure-session-count']) - explained);
	}
	return {counts: [...counts.values()], failures, cut};
}

/** Returns the domain of a policy as written, or an empty string. */
const domainOf = ({policy}: JsonObject): string => textIn(objectOf(policy)['policy-domain']).trim();

/** Enough for an IPv6 address in any spelling. */
const maxAddressLength = 45;

/** Returns `certificate-expired, 3 from 192.0.2.1 to mx.shop.example: …`, at most about 300 characters. */
function toFailure(detail: JsonObject, n: number): string {
	const from = nameIn(textIn(detail['sending-mta-ip']), maxAddressLength);
	const to = nameIn(textIn(detail['receiving-mx-hostname']) || textIn(detail['receiving-ip']));
	const reason = nameIn(textIn(detail['failure-reason-code']) || textIn(detail['additional-information']));
	const hosts = `${from && ` from ${from}`}${to && ` to ${to}`}`;
	return `${wordIn(detail['result-type'], resultTypes)}, ${n}${hosts}${reason && `: ${reason}`}`;
}

const objectsIn = (value: unknown): JsonObject[] => (Array.isArray(value) ? value : []).map(objectOf);
const textIn = (value: unknown): string => (typeof value === 'string' ? value.slice(0, 1024) : '');
const wordIn = (value: unknown, words: readonly string[]) =>
	words.find(word => word === textIn(value).toLowerCase()) ?? 'other';

function numberIn(value: unknown): number {
	const number = Number(value);
	return Number.isSafeInteger(number) && number > 0 ? Math.min(number, maxSessions) : 0;
}
