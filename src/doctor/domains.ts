import type {Clock} from '../kit/clock.ts';
import {type CheckedRecord, lookAtHost, type OpenSources} from '../resources/domains/check-records.ts';
import type {SendingNames} from '../resources/domains/domain-records.ts';
import {sampleDomain} from '../resources/domains/rules.ts';
import {listDomains} from '../resources/domains/store.ts';
import {queryDomainRecords} from '../resources/domains/verify-domain.ts';
import {listInboundDomains} from '../resources/received/store.ts';
import {listWorkspaces} from '../resources/workspaces/store.ts';
import type {Store} from '../store/store.ts';
import {type Check, type CheckResult, fail, ok, warn} from './finding.ts';

type DomainsInput = {
	readonly store: Store;
	readonly names: SendingNames;
	readonly openSources: OpenSources;
	readonly clock: Clock;
};

/** Checks the DNS records of each domain that mail is sent from, and of the hosts that receive mail. */
export function domainsCheck({store: {reader}, names, openSources, clock}: DomainsInput): Check {
	return {
		name: 'domain',
		why: 'Without them, receivers refuse a domain’s mail or file it as spam, and mail to it may be unencrypted.',
		async run() {
			const findings: CheckResult[] = [];
			for (const workspace of await listWorkspaces(reader)) {
				const all = await listDomains(reader, workspace.id);
				for (const domain of all.filter(({name}) => name !== sampleDomain)) {
					const {records} = await queryDomainRecords(reader, domain, names, openSources, clock.now());
					findings.push(
						judged(
							domain.name,
							records,
							`publish the records that mailctl domain show ${domain.name} lists`,
						),
					);
				}
			}
			for (const host of new Set([names.returnPathDomain, ...(await listInboundDomains(reader))])) {
				const records = await lookAtHost(reader, host, names, openSources, clock.now());
				const command = host === names.returnPathDomain ? 'tls' : 'inbound show';
				findings.push(
					...(records.length === 0
						? []
						: [judged(host, records, `publish the records that mailctl ${command} lists`)]),
				);
			}
			return findings;
		},
	};
}

function judged(name: string, records: readonly CheckedRecord[], fix: string): CheckResult {
	const wrong = records.filter(({ok: good}) => !good);
	const unknown = wrong.filter(({state}) => state === 'unknown');
	const list = wrong.map(record => `${record.type} ${record.name} ${record.state}`).join(', ');
	if (wrong.length === 0) {
		return ok(`${name}: all ${records.length} records are correct`);
	}
	return wrong.some(({required}) => required) && unknown.length < wrong.length
		? fail(`${name}: ${list}`, `${fix}; if it is no longer used: mailctl domain remove ${name}`)
		: warn(`${name}: ${list}`, fix);
}
