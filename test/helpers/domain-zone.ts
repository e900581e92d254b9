import type {DnsRecords, Zone} from './fake-dns.ts';

export type ToPublish = {
	readonly type: string;
	readonly name: string;
	readonly value: string;
	readonly purpose: string;
};

/** Publishes records as they were shown, an MX with its host. */
export function publish(zone: Zone, records: readonly ToPublish[]): void {
	for (const {type, name, value} of records) {
		const before = zone[name];
		const entry: DnsRecords = typeof before === 'object' ? before : {};
		if (type === 'MX') {
			const [preference = '', exchange = ''] = value.split(' ');
			zone[name] = {...entry, mx: [[Number(preference), exchange]]};
			zone[exchange] ??= {a: ['192.0.2.25']};
		} else if (type === 'CNAME') {
			zone[name] = {cname: value};
		} else {
			zone[name] = {...entry, txt: [...(entry.txt ?? []), value.match(/.{1,255}/g) ?? []]};
		}
	}
}
