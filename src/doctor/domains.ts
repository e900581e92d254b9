import type {OpenSources} from '../domains/check-records.ts';
import type {SendingNames} from '../domains/domain-records.ts';
import {sampleDomain} from '../domains/domains.ts';
import {type DomainSight, lookAtDomain} from '../domains/verify-domain.ts';
import type {Clock} from '../kit/clock.ts';
import {listDomains} from '../store/domains.ts';
import type {Store} from '../store/store.ts';
import {listWorkspaces} from '../store/workspaces.ts';
import {type Check, type Found, fail, ok, warn} from './finding.ts';

type DomainsInput = {
	readonly store: Store;
	readonly names: SendingNames;
	readonly openSources: OpenSources;
	readonly clock: Clock;
};

/** Whether DNS has the records of each domain that mail comes from. */
export function domainsCheck({store: {reader}, names, openSources, clock}: DomainsInput): Check {
	return {
		name: 'domain',
		why: 'Receivers refuse mail, or file it as spam, that no key or record of its domain vouches for.',
		async look() {
			const found: Found[] = [];
			for (const workspace of await listWorkspaces(reader)) {
				const all = await listDomains(reader, workspace.id);
				for (const domain of all.filter(({name}) => name !== sampleDomain)) {
					found.push(judged(await lookAtDomain(reader, domain, names, openSources, clock.now())));
				}
			}
			return found;
		},
	};
}

function judged({domain: {name}, records}: DomainSight): Found {
	const wrong = records.filter(({ok: good}) => !good);
	const unknown = wrong.filter(({state}) => state === 'unknown');
	const list = wrong.map(record => `${record.type} ${record.name} ${record.state}`).join(', ');
	const mend = `mailctl domain show ${name} says what to publish`;
	if (wrong.length === 0) {
		return ok(`${name}: ${records.length} records are as they should be`);
	}
	return wrong.some(({required}) => required) && unknown.length < wrong.length
		? fail(`${name}: ${list}`, `${mend}; if nobody sends from it: mailctl domain remove ${name}`)
		: warn(`${name}: ${list}`, mend);
}
