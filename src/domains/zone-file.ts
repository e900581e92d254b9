import type {DomainRecord} from './domain-records.ts';
import {unknownInclude} from './smarthost-spf.ts';

const ttl = 3600;
const longestString = 255;

/**
 * Records as lines of a zone file (RFC 1035 §5.1): absolute names, a TXT in strings of at most 255 octets. DMARC is a
 * comment, because a second record beside one that is there would void both; so is the record of a key that is not needed any more,
 * and one with a placeholder.
 */
export function zoneFile(domain: string, records: readonly DomainRecord[], now: string): string[] {
	return [
		`; ${domain}: what mailctl needs in DNS`,
		...records.flatMap(record => {
			const line = `${record.name}. ${ttl} IN ${record.type} ${dataOf(record)}`;
			if (record.purpose === 'dmarc') {
				return ['; only where there is no DMARC record yet:', `; ${line}`];
			}
			if (!record.ready) {
				return [`; ${record.type} ${record.name}: ${record.note}`];
			}
			if (record.value.includes(unknownInclude)) {
				return [`; ${record.note}:`, `; ${line}`];
			}
			const until = record.key?.keep_until ?? null;
			return until !== null && until <= now ? [`; not needed any more: ${line}`] : [line];
		}),
	];
}

function dataOf({type, value}: DomainRecord): string {
	return type === 'TXT' ? stringsOf(value).map(quoted).join(' ') : `${value}.`;
}

function stringsOf(value: string): string[] {
	const strings: string[] = [];
	for (let from = 0; from === 0 || from < value.length; from += longestString) {
		strings.push(value.slice(from, from + longestString));
	}
	return strings;
}

function quoted(text: string): string {
	return `"${text.replace(/["\\]/g, '\\$&')}"`;
}
