import {type CheckedRecord, lookAtHost, type OpenSources} from '../domains/check-records.ts';
import type {SendingNames} from '../domains/domain-records.ts';
import {sampleDomain} from '../domains/domains.ts';
import {lookAtDomain} from '../domains/verify-domain.ts';
import type {Clock} from '../kit/clock.ts';
import {listDomains} from '../store/domains.ts';
import {listInboundDomains} from '../store/received.ts';
import type {Store} from '../store/store.ts';
import {listWorkspaces} from '../store/workspaces.ts';
import {type Check, type Found, fail, ok, warn} from './finding.ts';

type DomainsInput = {
	readonly store: Store;
	readonly names: SendingNames;
	readonly openSources: OpenSources;
	readonly clock: Clock;
};

/** Whether DNS has the records of each domain that mail comes from, and of the hosts that take mail. */
export function domainsCheck({store: {reader}, names, openSources, clock}: DomainsInput): Check {
	return {
		name: 'domain',
		why: 'Without its records receivers refuse mail of a domain or file it as spam; mail to it may come unencrypted.',
		async look() {
			const found: Found[] = [];
			for (const workspace of await listWorkspaces(reader)) {
				const all = await listDomains(reader, workspace.id);
				for (const domain of all.filter(({name}) => name !== sampleDomain)) {
					const {records} = await lookAtDomain(reader, domain, names, openSources, clock.now());
					found.push(judged(domain.name, records, `mailctl domain show ${domain.name} says what to publish`));
				}
			}
			for (const host of new Set([names.returnPathDomain, ...(await listInboundDomains(reader))])) {
				const records = await lookAtHost(reader, host, names, openSources, clock.now());
				const command = host === names.returnPathDomain ? 'tls' : 'inbound show';
				found.push(
					...(records.length === 0 ? [] : [judged(host, records, `mailctl ${command} says what to publish`)]),
				);
			}
			return found;
		},
	};
}

function judged(name: string, records: readonly CheckedRecord[], fix: string): Found {
	const wrong = records.filter(({ok: good}) => !good);
	const unknown = wrong.filter(({state}) => state === 'unknown');
	const list = wrong.map(record => `${record.type} ${record.name} ${record.state}`).join(', ');
	if (wrong.length === 0) {
		return ok(`${name}: ${records.length} records are as they should be`);
	}
	return wrong.some(({required}) => required) && unknown.length < wrong.length
		? fail(`${name}: ${list}`, `${fix}; if nobody sends from it: mailctl domain remove ${name}`)
		: warn(`${name}: ${list}`, fix);
}
