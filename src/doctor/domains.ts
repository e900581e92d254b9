import type {Clock} from '../kit/clock.ts';
import {type CheckedRecord, checkHostRecords, type OpenSources} from '../resources/domains/check-records.ts';
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
		why: 'Without these records, receivers refuse a domain’s mail or treat it as spam; mail to it may be unencrypted.',
		async run() {
			const findings: CheckResult[] = [];
			for (const workspace of await listWorkspaces(reader)) {
				const workspaceDomains = await listDomains(reader, workspace.id);
				for (const domain of workspaceDomains.filter(({name}) => name !== sampleDomain)) {
					const {records} = await queryDomainRecords(reader, domain, names, openSources, clock.now());
					const fix = `publish the records that mailctl domain show ${domain.name} lists`;
					findings.push(judgeRecords(domain.name, records, fix));
				}
			}
			for (const host of new Set([names.returnPathDomain, ...(await listInboundDomains(reader))])) {
				const records = await checkHostRecords(reader, host, names, openSources, clock.now());
				const command = host === names.returnPathDomain ? 'tls' : 'inbound show';
				if (records.length > 0) {
					findings.push(judgeRecords(host, records, `publish the records that mailctl ${command} lists`));
				}
			}
			return findings;
		},
	};
}

function judgeRecords(name: string, records: readonly CheckedRecord[], fix: string): CheckResult {
	const incorrect = records.filter(record => !record.ok);
	const unknown = incorrect.filter(({state}) => state === 'unknown');
	const list = incorrect.map(record => `${record.type} ${record.name} ${record.state}`).join(', ');
	if (incorrect.length === 0) {
		return ok(`${name}: all ${records.length} records are correct`);
	}
	return incorrect.some(({required}) => required) && unknown.length < incorrect.length
		? fail(`${name}: ${list}`, `${fix}; if it is no longer used: mailctl domain remove ${name}`)
		: warn(`${name}: ${list}`, fix);
}
