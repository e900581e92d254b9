import {isIP} from 'node:net';
import ipaddr from 'ipaddr.js';
import {badInNames} from '../../kit/text.ts';
import type {AggregateReport, DmarcCount, DmarcReport} from '../../mail/aggregate.ts';
import {registeredDomain} from '../../mail/registered-domain.ts';
import {hostName} from '../../net/host-name.ts';
import {elementAt, readXml, textAt, type XmlElement} from './xml.ts';

/** Counts held while a report is read. Beyond this limit, the half with the fewest messages is dropped. */
const maxHeldCounts = 20_000;
/** Counts that are stored: those with the most messages. */
const maxCounts = 2000;
const maxPeriodMs = 32 * 86_400_000;
const maxNameLength = 100;
const maxIdLength = 200;

/**
 * Reads a DMARC aggregate report (RFC 7489 Appendix C, and its successor with a namespace). Returns the problem with an
 * invalid report, or `null` for another kind of document.
 *
 * @throws XmlProblem
 */
export function readDmarcReport(xml: string): DmarcReport | string | null {
	const counts = new Map<string, DmarcCount>();
	let cut = 0;
	const root = readXml(xml, 'record', record => {
		const count = countOf(record);
		if (count === null) {
			cut += isBlank(record) ? 0 : 1;
			return;
		}
		const key = JSON.stringify({...count, n: 0});
		counts.set(key, {...count, n: count.n + (counts.get(key)?.n ?? 0)});
		if (counts.size > maxHeldCounts) {
			cut += keepLargest(counts, maxHeldCounts / 2);
		}
	});
	if (root.name !== 'feedback') {
		return null;
	}
	const metadata = elementAt(root, 'report_metadata');
	const [org, email] = [textAt(metadata, 'org_name'), textAt(metadata, 'email')];
	const head = checkHeader({
		org: [org, email],
		reportId: textAt(metadata, 'report_id'),
		domain: textAt(root, 'policy_published', 'domain'),
		begin: timeIn(textAt(metadata, 'date_range', 'begin')),
		end: timeIn(textAt(metadata, 'date_range', 'end')),
	});
	if (typeof head === 'string') {
		return head;
	}
	// A report without any records is valid: the reporter received no mail.
	if (counts.size === 0 && cut > 0) {
		return 'none of its records can be read';
	}
	cut += keepLargest(counts, maxCounts);
	const reporterDomains = [email.slice(email.lastIndexOf('@') + 1), org].flatMap(name => registeredIn(name) ?? []);
	return {kind: 'dmarc', ...head, reporterDomains, counts: [...counts.values()], cut};
}

/** Retains the counts with the most messages and returns how many it removed. */
function keepLargest(counts: Map<string, DmarcCount>, limit: number): number {
	const sorted = [...counts].toSorted(([, a], [, b]) => b.n - a.n);
	counts.clear();
	for (const [key, count] of sorted.slice(0, limit)) {
		counts.set(key, count);
	}
	return sorted.length - counts.size;
}

/** Converts seconds to milliseconds. Some reporters write milliseconds already. */
function timeIn(text: string): number {
	const number = /^\d{9,13}$/.test(text) ? Number(text) : Number.NaN;
	return number < 1e11 ? number * 1000 : number;
}

type ReportHeader = Pick<DmarcReport, 'reportId' | 'domain' | 'begin' | 'end'> & {readonly org: readonly string[]};

/** Checks the header of a report and uses the reporter's first name. Returns the problem if it is invalid. */
export function checkHeader(header: ReportHeader): Omit<AggregateReport, 'kind' | 'counts' | 'cut'> | string {
	const {org, reportId, begin, end} = header;
	const domain = hostIn(header.domain);
	if (domain === null) {
		return 'it does not name the domain it is about';
	}
	const name = org.map(reporterIn).find(text => text !== '') ?? 'unknown';
	return begin <= end && end - begin <= maxPeriodMs
		? {org: name, reportId: nameIn(reportId, maxIdLength) || `${begin}`, domain, begin, end}
		: 'its dates are invalid';
}

/** Makes a name from an untrusted report safe to store and print. */
export function nameIn(text: string, maxLength = maxNameLength): string {
	return text
		.replace(new RegExp(`[${badInNames}]+`, 'gu'), ' ')
		.trim()
		.slice(0, maxLength);
}

/**
 * Returns a reporter's name. A host name is cut to its registered domain, because it may have any number of subdomains.
 */
function reporterIn(text: string): string {
	const name = nameIn(text);
	const registered = registeredIn(name);
	if (registered === null) {
		return name;
	}
	return beyondAscii.test(name) ? registered : name.replace(/\.$/, '').slice(-registered.length);
}

const beyondAscii = /[^ -~]/;

/** Returns a host name in A-labels, or `null` if the text is not a host name. */
export function hostIn(text: string): string | null {
	const name = text.trim().toLowerCase().replace(/\.$/, '');
	const host = beyondAscii.test(name) ? (hostName(name) ?? '') : name;
	return host.length <= 253 && /^[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*$/.test(host) ? host : null;
}

/** Returns the registered domain of a host, or `null` if it has none or is not a host name. */
function registeredIn(text: string): string | null {
	const host = hostIn(text);
	return host === null ? null : registeredDomain(host);
}

const dispositions = ['none', 'quarantine', 'reject'] as const;

/**
 * Whether a record is the placeholder of an empty report: it counts no messages, or has neither an address nor a count.
 */
function isBlank(record: XmlElement): boolean {
	const count = textAt(record, 'row', 'count');
	return count === '' ? textAt(record, 'row', 'source_ip') === '' : /^0+$/.test(count);
}

/** Returns `null` if the record lacks an address or a valid count. */
function countOf(record: XmlElement): DmarcCount | null {
	const row = elementAt(record, 'row');
	const ip = addressIn(textAt(row, 'source_ip'));
	const count = textAt(row, 'count');
	if (ip === null || !/^[1-9]\d{0,8}$/.test(count)) {
		return null;
	}
	const evaluated = elementAt(row, 'policy_evaluated');
	const passes = (name: string) => textAt(evaluated, name).toLowerCase() === 'pass';
	const [dkim, spf] = [passes('dkim'), passes('spf')];
	const disposition = textAt(evaluated, 'disposition').toLowerCase();
	return {
		ip,
		dkim,
		spf,
		n: Number(count),
		disposition: dispositions.find(known => known === disposition) ?? 'none',
		why: dkim || spf ? '' : overrideReason(record, evaluated),
	};
}

/** Normalizes an IP address so that its mail is counted together. Returns `null` if it is not an IP address. */
const addressIn = (text: string): string | null =>
	isIP(text) !== 0 && ipaddr.isValid(text) && !text.includes('%') ? ipaddr.process(text).toString() : null;

/**
 * Returns `DKIM pass for other.example, SPF none; forwarded`. It shows registered domains, because forgers can invent
 * any number of subdomains.
 */
function overrideReason(record: XmlElement, evaluated: XmlElement | undefined): string {
	const results = elementAt(record, 'auth_results');
	const describe = (name: string) => {
		const all = results?.children.filter(child => child.name === name) ?? [];
		const best = all.find(result => textAt(result, 'result').toLowerCase() === 'pass') ?? all[0];
		const host = textAt(best, 'domain');
		const domain = registeredIn(host) ?? hostIn(host);
		const result = /^[a-z]{1,12}$/i.exec(textAt(best, 'result'))?.[0].toLowerCase() ?? 'none';
		return domain ? `${result} for ${domain}` : result;
	};
	const reason = /^[a-z_]{1,30}$/i.exec(textAt(evaluated, 'reason', 'type'))?.[0].replaceAll('_', ' ');
	return `DKIM ${describe('dkim')}, SPF ${describe('spf')}${reason ? `; ${reason}` : ''}`;
}
