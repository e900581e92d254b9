import type {ApiParts, Route} from '../../api/api-parts.ts';
import {apiRoute, listRoute, operationRoute} from '../../api/api-route.ts';
import {apiError, unavailable} from '../../mail/api-error.ts';
import {emptyBody} from '../validate.ts';
import {domainRecordsView, domainView} from '../views.ts';
import {dmarcPeriod, dmarcView} from './dmarc.ts';
import {readDomainRecords} from './domain-records.ts';
import {
	addDomain,
	removeDomain,
	requireDomain,
	returnPathProblem,
	rotateKeys,
	toDomainName,
	updateDomain,
} from './rules.ts';
import {dmarcQuery, dmarcSchema, domainSchema, listedDomainSchema} from './schema.ts';
import {type DkimKey, type Domain, findDomainById, listDkimKeys, pageDomains} from './store.ts';
import {checkDomain, type DomainQuery, nextCheckAt, queryDomainRecords} from './verify-domain.ts';

const tag = 'Domains';
const id = 'dom';
const reads = {tag, scope: 'domains:read', id} as const;
const domainsPerPage = 25;

const listDomainsRoute = listRoute({
	path: '/v1/domains',
	scope: 'domains:read',
	name: 'domains',
	tag,
	summary: 'List domains',
	meaning: 'Domains, newest first.',
	defaultLimit: domainsPerPage,
	item: listedDomainSchema,
	find: ({workspaceId}, {reader}) => ({read: part => pageDomains(reader, workspaceId, part)}),
	view: domain => domainView(domain),
});

const createDomainRoute = operationRoute(addDomain, {
	endpoint: 'POST /v1/domains',
	tag,
	summary: 'Add a domain',
	description:
		'Creates the domain and its DKIM keys, which sign once their records are published. Publish the records in the response, then verify the domain.',
	answer: [201, 'The domain, with the records to publish.', domainSchema],
	errors: ['conflict', 'unprocessable_entity'],
	async prepare({name, return_path_domain: host}, {domains}, workspaceId) {
		const message = returnPathProblem(toDomainName(name), host === undefined ? null : toDomainName(host));
		if (message !== null) {
			throw apiError('validation_failed', {violations: [{field: 'return_path_domain', message}]});
		}
		return {keys: await domains.makeKeys(workspaceId), ownHosts: domains.ownHosts};
	},
	view: ({domain, keys}, parts) => toUnqueriedView(parts, domain, keys),
});

const getDomainRoute = apiRoute({
	endpoint: 'GET /v1/domains/:id',
	...reads,
	summary: 'Get a domain',
	description: 'Queries DNS now, which may take a few seconds. Nothing is changed.',
	answer: [200, 'The domain, with its records and what DNS returns for them.', domainSchema],
	async handle(call, parts) {
		const domain = await requireDomain(parts.reader, call.workspaceId, call.id);
		const check = () => queryDomain(parts, domain);
		return await toView(parts, await parts.work.domainChecks.hold(domain.workspace_id, check));
	},
});

const getDmarcRoute = apiRoute({
	endpoint: 'GET /v1/domains/:id/dmarc',
	...reads,
	summary: 'Get the DMARC sources of a domain',
	description:
		'Lists the sending addresses in recent DMARC reports and recommends the next policy. Anyone can send such a report. Queries DNS for your addresses and your current policy.',
	answer: [200, 'The sources, most messages first, and the advice.', dmarcSchema],
	query: dmarcQuery,
	async handle({query: {days}, ...call}, parts) {
		const domain = await requireDomain(parts.reader, call.workspaceId, call.id);
		const review = () => parts.domains.reviewDmarc(domain, Number(days ?? dmarcPeriod.default));
		return dmarcView(await parts.work.domainChecks.hold(domain.workspace_id, review));
	},
});

const updateDomainRoute = operationRoute(updateDomain, {
	endpoint: 'PATCH /v1/domains/:id',
	id,
	tag,
	summary: 'Update a domain',
	description:
		'Sets the host of the links in its messages. It is used once it resolves to this installation; until then links use the public URL. Omitted fields stay unchanged.',
	answer: [200, 'The domain, with the records to publish.', domainSchema],
	errors: ['conflict', 'unprocessable_entity'],
	prepare: async (_input, {domains: {ownHosts}}) => ({ownHosts}),
	view: async ({domain}, parts) => toUnqueriedView(parts, domain, await listDkimKeys(parts.reader, domain.id)),
});

const verifyDomainRoute = apiRoute({
	endpoint: 'POST /v1/domains/:id/verify',
	tag,
	scope: 'domains:manage',
	id,
	summary: 'Verify a domain',
	description:
		'Queries DNS now and saves the result: whether the domain is verified, which keys sign, and whether its own return path is used. The body may be omitted.',
	answer: [200, 'The domain after the check, verified or not.', domainSchema],
	body: emptyBody,
	isBodyOptional: true,
	async handle({tools, ...call}, parts) {
		const domain = await requireDomain(parts.reader, call.workspaceId, call.id);
		const checked = await parts.work.domainChecks.hold(domain.workspace_id, () =>
			checkDomain({
				find: () => findDomainById(parts.reader, domain.workspace_id, domain.id),
				check: found => queryDomain(parts, found),
				write: parts.change,
				acting: tools,
			}),
		);
		if (checked === undefined) {
			throw apiError('not_found');
		}
		if (checked === 'busy') {
			throw unavailable();
		}
		return await toView(parts, checked);
	},
});

const rotateDomainKeysRoute = operationRoute(rotateKeys, {
	endpoint: 'POST /v1/domains/:id/rotate-key',
	id,
	tag,
	summary: 'Rotate the keys of a domain',
	description:
		'New keys sign once their records are published; the old ones sign until then. The body may be omitted.',
	answer: [200, 'The domain, with the records of the new keys.', domainSchema],
	errors: ['conflict'],
	isBodyOptional: true,
	async prepare(input, {reader, domains}, workspaceId) {
		await requireDomain(reader, workspaceId, input.id);
		return {keys: await domains.makeKeys(workspaceId)};
	},
	async view({domain, keys}, parts) {
		const rotated = await toUnqueriedView(parts, domain, keys);
		return {...rotated, records: rotated.records.filter(({purpose}) => purpose === 'dkim')};
	},
});

const deleteDomainRoute = operationRoute(removeDomain, {
	endpoint: 'DELETE /v1/domains/:id',
	id,
	tag,
	summary: 'Remove a domain',
	description: 'Also removes its keys: messages in transit may fail DKIM. Remove its senders first.',
	answer: [204, 'The domain was removed.', null],
	errors: ['conflict'],
});

/** The routes of sender domains: their DNS records and their DKIM keys. */
export const domainRoutes: readonly Route[] = [
	listDomainsRoute,
	createDomainRoute,
	getDomainRoute,
	getDmarcRoute,
	updateDomainRoute,
	verifyDomainRoute,
	rotateDomainKeysRoute,
	deleteDomainRoute,
];

function queryDomain({reader, domains, tools}: ApiParts, domain: Domain): Promise<DomainQuery> {
	return queryDomainRecords(reader, domain, domains.names, domains.openSources, tools.clock.now());
}

function nextCheckOf({domains, tools}: ApiParts, domain: Domain, keys: readonly DkimKey[]): string | null {
	return domains.areChecked ? nextCheckAt(domain, keys, tools.clock.now()) : null;
}

async function toView(parts: ApiParts, {domain, records}: Pick<DomainQuery, 'domain' | 'records'>) {
	const keys = await listDkimKeys(parts.reader, domain.id);
	return domainRecordsView(domain, nextCheckOf(parts, domain, keys), records);
}

/** Returns the domain with the records to publish, without querying DNS for them. */
async function toUnqueriedView(parts: ApiParts, domain: Domain, keys: readonly DkimKey[]) {
	const {reader, domains, tools} = parts;
	const nextCheck = nextCheckOf(parts, domain, keys);
	const records = await readDomainRecords(reader, domains.names, domain, keys, tools.clock.now());
	return domainRecordsView(domain, nextCheck, records);
}
