import {isIP} from 'node:net';
import ipaddr from 'ipaddr.js';
import {badInNames} from '../kit/text.ts';
import type {AggregateReport, DmarcCount, DmarcReport} from '../mail/aggregate.ts';
import {registeredDomain} from '../mail/registered-domain.ts';
import {hostName} from '../net/host-name.ts';
import {elementAt, readXml, textAt, type XmlElement} from './xml.ts';

/** Counts that are held while a report is read. Beyond them the half with the most mail stays. */
const maxHeldCounts = 20_000;
/** Counts that are kept, those of most mail. */
const maxCounts = 2000;
const maxPeriodMs = 32 * 86_400_000;
const maxNameLength = 100;
const maxIdLength = 200;

/**
 * An aggregate report (RFC 7489 Appendix C, and the form with a namespace that follows it); a text: what is wrong with
 * it; null: it is another document.
 *
 * @throws XmlFault
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
	const head = headOf({
		org: [org, email],
		reportId: textAt(metadata, 'report_id'),
		domain: textAt(root, 'policy_published', 'domain'),
		begin: timeIn(textAt(metadata, 'date_range', 'begin')),
		end: timeIn(textAt(metadata, 'date_range', 'end')),
	});
	if (typeof head === 'string') {
		return head;
	}
	// A report without records says that no mail was seen.
	if (counts.size === 0 && cut > 0) {
		return 'it has no record that can be read';
	}
	cut += keepLargest(counts, maxCounts);
	const reporterDomains = [email.slice(email.lastIndexOf('@') + 1), org].flatMap(name => registeredIn(name) ?? []);
	return {kind: 'dmarc', ...head, reporterDomains, counts: [...counts.values()], cut};
}

/** Sorts counts, those of most mail first, and returns how many it removed from the end. */
function keepLargest(counts: Map<string, DmarcCount>, limit: number): number {
	const sorted = [...counts].toSorted(([, a], [, b]) => b.n - a.n);
	counts.clear();
	for (const [key, count] of sorted.slice(0, limit)) {
		counts.set(key, count);
	}
	return sorted.length - counts.size;
}

/** Some write milliseconds. */
function timeIn(text: string): number {
	const number = /^\d{9,13}$/.test(text) ? Number(text) : Number.NaN;
	return number < 1e11 ? number * 1000 : number;
}

type Said = Pick<DmarcReport, 'reportId' | 'domain' | 'begin' | 'end'> & {readonly org: readonly string[]};

/** What a report says of itself, by the first name that the reporter has; a text: why that cannot be. */
export function headOf(said: Said): Omit<AggregateReport, 'kind' | 'counts' | 'cut'> | string {
	const {org, reportId, domain: about, begin, end} = said;
	const domain = hostIn(about);
	if (domain === null) {
		return 'it does not say which domain it is about';
	}
	const name = org.map(reporterIn).find(text => text !== '') ?? 'unknown';
	return begin <= end && end - begin <= maxPeriodMs
		? {org: name, reportId: nameIn(reportId, maxIdLength) || `${begin}`, domain, begin, end}
		: 'its dates make no sense';
}

/** A name that strangers chose, as it may be stored and printed. */
export function nameIn(text: string, maxLength = maxNameLength): string {
	return text
		.replace(new RegExp(`[${badInNames}]+`, 'gu'), ' ')
		.trim()
		.slice(0, maxLength);
}

/** The name of a reporter. Of a host only the registered domain counts: there may be any number of names below it. */
function reporterIn(text: string): string {
	const name = nameIn(text);
	const registered = registeredIn(name);
	if (registered === null) {
		return name;
	}
	return beyondAscii.test(name) ? registered : name.replace(/\.$/, '').slice(-registered.length);
}

const beyondAscii = /[^ -~]/;

/** A host's name in A-labels; null: it is not the name of a host. */
export function hostIn(text: string): string | null {
	const written = text.trim().toLowerCase().replace(/\.$/, '');
	const host = beyondAscii.test(written) ? (hostName(written) ?? '') : written;
	return host.length <= 253 && /^[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*$/.test(host) ? host : null;
}

/** The registered domain of a host; null: it has none, or is no host. */
function registeredIn(text: string): string | null {
	const host = hostIn(text);
	return host === null ? null : registeredDomain(host);
}

const dispositions = ['none', 'quarantine', 'reject'] as const;

/** A record that empty reports have in place of none: it counts no mail, or has neither an address nor a count. */
function isBlank(record: XmlElement): boolean {
	const count = textAt(record, 'row', 'count');
	return count === '' ? textAt(record, 'row', 'source_ip') === '' : /^0+$/.test(count);
}

/** Null: it has no address or no sensible number. */
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
		...{ip, dkim, spf, n: Number(count)},
		disposition: dispositions.find(one => one === disposition) ?? 'none',
		why: dkim || spf ? '' : whyOf(record, evaluated),
	};
}

/** In one spelling, so that all mail of an address is counted together; null: it is none. */
const addressIn = (text: string): string | null =>
	isIP(text) !== 0 && ipaddr.isValid(text) && !text.includes('%') ? ipaddr.process(text).toString() : null;

/**
 * `DKIM pass for other.example, SPF none; forwarded`, with registered domains: forgers make up any number of names
 * below one.
 */
function whyOf(record: XmlElement, evaluated: XmlElement | undefined): string {
	const results = elementAt(record, 'auth_results');
	const said = (name: string) => {
		const all = results?.children.filter(child => child.name === name) ?? [];
		const one = all.find(result => textAt(result, 'result').toLowerCase() === 'pass') ?? all[0];
		const host = textAt(one, 'domain');
		const domain = registeredIn(host) ?? hostIn(host);
		return `${/^[a-z]{1,12}$/i.exec(textAt(one, 'result'))?.[0].toLowerCase() ?? 'none'}${domain ? ` for ${domain}` : ''}`;
	};
	const reason = /^[a-z_]{1,30}$/i.exec(textAt(evaluated, 'reason', 'type'))?.[0].replaceAll('_', ' ');
	return `DKIM ${said('dkim')}, SPF ${said('spf')}${reason ? `; ${reason}` : ''}`;
}
