import {isIP} from 'node:net';
import ipaddr from 'ipaddr.js';
import {badInNames} from '../kit/text.ts';
import type {AggregateReport, DmarcCount, DmarcReport} from '../mail/aggregate.ts';
import {elementAt, readXml, textAt, type XmlElement} from './xml.ts';

const mostRecords = 20_000;
/** Counts that are kept, those of most mail. */
const mostCounts = 2000;
const longestPeriodMs = 32 * 86_400_000;
const longestName = 200;

/**
 * An aggregate report (RFC 7489 Appendix C, and the form with a namespace that follows it); a text: what is wrong with it; null: it is
 * another document.
 *
 * @throws XmlFault
 */
export function readDmarcReport(xml: string): DmarcReport | string | null {
	const counts = new Map<string, DmarcCount>();
	let records = 0;
	let cut = 0;
	const root = readXml(xml, 'record', record => {
		const count = ++records > mostRecords ? null : countOf(record);
		if (count === null) {
			cut++;
			return;
		}
		const key = JSON.stringify({...count, n: 0});
		counts.set(key, {...count, n: count.n + (counts.get(key)?.n ?? 0)});
	});
	if (root.name !== 'feedback') {
		return null;
	}
	const metadata = elementAt(root, 'report_metadata');
	const head = headOf({
		org: [textAt(metadata, 'org_name'), textAt(metadata, 'email')],
		reportId: textAt(metadata, 'report_id'),
		domain: textAt(root, 'policy_published', 'domain'),
		begin: timeIn(textAt(metadata, 'date_range', 'begin')),
		end: timeIn(textAt(metadata, 'date_range', 'end')),
	});
	if (typeof head === 'string') {
		return head;
	}
	if (counts.size === 0) {
		return 'it has no record that can be read';
	}
	const most = [...counts.values()].toSorted((a, b) => b.n - a.n).slice(0, mostCounts);
	return {kind: 'dmarc', ...head, counts: most, cut: cut + counts.size - most.length};
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
	const name = org.map(nameIn).find(text => text !== '') ?? 'unknown';
	return begin <= end && end - begin <= longestPeriodMs
		? {org: name, reportId: nameIn(reportId) || `${begin}`, domain, begin, end}
		: 'its dates make no sense';
}

/** A name that strangers chose, as it may be stored and printed. */
export function nameIn(text: string): string {
	return text
		.replace(new RegExp(`[${badInNames}]+`, 'gu'), ' ')
		.trim()
		.slice(0, longestName);
}

/** Null: it is no name of a host. */
export function hostIn(text: string): string | null {
	const host = text.trim().toLowerCase().replace(/\.$/, '');
	return host.length <= 253 && /^[a-z0-9_-]+(?:\.[a-z0-9_-]+)*$/.test(host) ? host : null;
}

const dispositions = ['none', 'quarantine', 'reject'] as const;

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

/** `DKIM pass for other.example, SPF none; forwarded`. */
function whyOf(record: XmlElement, evaluated: XmlElement | undefined): string {
	const results = elementAt(record, 'auth_results');
	const said = (name: string) => {
		const all = results?.children.filter(child => child.name === name) ?? [];
		const one = all.find(result => textAt(result, 'result').toLowerCase() === 'pass') ?? all[0];
		const domain = hostIn(textAt(one, 'domain'));
		return `${/^[a-z]{1,12}$/i.exec(textAt(one, 'result'))?.[0].toLowerCase() ?? 'none'}${domain ? ` for ${domain}` : ''}`;
	};
	const reason = /^[a-z_]{1,30}$/i.exec(textAt(evaluated, 'reason', 'type'))?.[0].replaceAll('_', ' ');
	return `DKIM ${said('dkim')}, SPF ${said('spf')}${reason ? `; ${reason}` : ''}`;
}
