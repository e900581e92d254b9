import type {ApiParts, Route} from '../../api/api-parts.ts';
import {apiRoute, listRoute} from '../../api/api-route.ts';
import {parseDomain} from '../../mail/address.ts';
import {apiError, unavailable} from '../../mail/api-error.ts';
import {emptyBody} from '../validate.ts';
import {domainRecordsView, domainView} from '../views.ts';
import {dmarcPeriod, dmarcView} from './dmarc.ts';
import {readDomainRecords} from './domain-records.ts';
import {addDomain, removeDomain, returnPathProblem} from './domains.ts';
import {changeLinkHost} from './link-host.ts';
import {dmarcQuery, dmarcSchema, domainBody, domainChanges, domainSchema, listedDomainSchema} from './schema.ts';
import {rotateKeys} from './signing-keys.ts';
import {type DkimKey, type Domain, findDomainById, listDkimKeys, pageDomains} from './store.ts';
import {checkDomain, type DomainQuery, nextCheckAt, queryDomainRecords} from './verify-domain.ts';

const tag = 'Domains';
const reads = {tag, scope: 'domains:read', id: 'dom'} as const;
const manages = {tag, scope: 'domains:manage', id: 'dom'} as const;
const domainsPerPage = 25;
const maxListedSenders = 5;

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

const createDomainRoute = apiRoute({
	endpoint: 'POST /v1/domains',
	scope: 'domains:manage',
	tag,
	summary: 'Add a domain',
	description:
		'Creates the domain and its DKIM keys, which sign once their records are published. Publish the records in the response, then verify the domain.',
	answer: [201, 'The domain, with the records to publish.', domainSchema],
	errors: ['conflict', 'unprocessable_entity'],
	body: domainBody,
	async handle({workspaceId, body, tools}, parts) {
		const {change, vault, domains} = parts;
		const name = toDomainName(body.name);
		const requested = body.return_path_domain;
		const returnPathDomain = requested === undefined ? null : toDomainName(requested);
		const message = returnPathProblem(name, returnPathDomain);
		if (message !== null) {
			throw apiError('validation_failed', {violations: [{field: 'return_path_domain', message}]});
		}
		const keys = await domains.makeKeys(workspaceId);
		const {ownHosts} = domains;
		const links = body.link_host === undefined ? null : {host: toDomainName(body.link_host), ownHosts};
		const input = {workspaceId, name, returnPathDomain, links, keys};
		const added = await change(trx => addDomain(trx, tools, vault, input));
		if (!added) {
			throw apiError('conflict', {message: 'This workspace already has this domain.'});
		}
		return await toUnqueriedView(parts, added.domain, added.keys);
	},
});

const getDomainRoute = apiRoute({
	endpoint: 'GET /v1/domains/:id',
	...reads,
	summary: 'Get a domain',
	description: 'Queries DNS now, which may take a few seconds. Nothing is changed.',
	answer: [200, 'The domain, with its records and what DNS returns for them.', domainSchema],
	async handle(call, parts) {
		const domain = await requireDomain(parts, call);
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
		const domain = await requireDomain(parts, call);
		const review = () => parts.domains.reviewDmarc(domain, Number(days ?? dmarcPeriod.default));
		return dmarcView(await parts.work.domainChecks.hold(domain.workspace_id, review));
	},
});

const updateDomainRoute = apiRoute({
	endpoint: 'PATCH /v1/domains/:id',
	...manages,
	summary: 'Update a domain',
	description:
		'Sets the host of the links in its messages. It is used once it resolves to this installation; until then links use the public URL. Omitted fields stay unchanged.',
	answer: [200, 'The domain, with the records to publish.', domainSchema],
	errors: ['conflict', 'unprocessable_entity'],
	body: domainChanges,
	async handle({tools, body, ...call}, parts) {
		const {reader, change, domains} = parts;
		const domain = await requireDomain(parts, call);
		const {link_host: host = domain.link_host} = body;
		const linkHost = host === domain.link_host || host === null ? host : toDomainName(host);
		const changed = await change(trx => changeLinkHost(trx, tools, domain, linkHost, domains.ownHosts));
		return await toUnqueriedView(parts, changed, await listDkimKeys(reader, domain.id));
	},
});

const verifyDomainRoute = apiRoute({
	endpoint: 'POST /v1/domains/:id/verify',
	...manages,
	summary: 'Verify a domain',
	description:
		'Queries DNS now and saves the result: whether the domain is verified, which keys sign, and whether its own return path is used. The body may be omitted.',
	answer: [200, 'The domain after the check, verified or not.', domainSchema],
	body: emptyBody,
	isBodyOptional: true,
	async handle({tools, ...call}, parts) {
		const domain = await requireDomain(parts, call);
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

const rotateDomainKeysRoute = apiRoute({
	endpoint: 'POST /v1/domains/:id/rotate-key',
	...manages,
	summary: 'Rotate the keys of a domain',
	description:
		'New keys sign once their records are published; the old ones sign until then. The body may be omitted.',
	answer: [200, 'The domain, with the records of the new keys.', domainSchema],
	errors: ['conflict'],
	body: emptyBody,
	isBodyOptional: true,
	async handle({tools, ...call}, parts) {
		const {change, vault, domains} = parts;
		const domain = await requireDomain(parts, call);
		const keys = await domains.makeKeys(domain.workspace_id);
		const input = {domain, keys, selector: null};
		const rotation = await change(trx => rotateKeys(trx, tools, vault, input));
		if (rotation.kind !== 'begun') {
			throw apiError('conflict', {
				message: 'A key rotation is already in progress: publish the records of the new keys.',
			});
		}
		const rotated = await toUnqueriedView(parts, domain, rotation.keys);
		return {...rotated, records: rotated.records.filter(({purpose}) => purpose === 'dkim')};
	},
});

const deleteDomainRoute = apiRoute({
	endpoint: 'DELETE /v1/domains/:id',
	...manages,
	summary: 'Remove a domain',
	description: 'Also removes its keys: messages in transit may fail DKIM. Remove its senders first.',
	answer: [204, 'The domain was removed.', null],
	errors: ['conflict'],
	async handle({tools, ...call}, parts) {
		const domain = await requireDomain(parts, call);
		const senders = await parts.change(trx => removeDomain(trx, tools, domain));
		if (senders) {
			const listed = [
				...senders.slice(0, maxListedSenders),
				...(senders.length > maxListedSenders ? ['…'] : []),
			].join(', ');
			throw apiError('conflict', {message: `The domain has senders (${listed}). Remove them first.`});
		}
	},
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

/** Returns the domain. Throws `not_found` if it does not exist. */
async function requireDomain(
	{reader}: ApiParts,
	{workspaceId, id}: {readonly workspaceId: string; readonly id: string},
) {
	const domain = await findDomainById(reader, workspaceId, id);
	if (!domain) {
		throw apiError('not_found');
	}
	return domain;
}

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

function toDomainName(text: string): string {
	const name = parseDomain(text);
	if (name === null) {
		throw new Error('A domain passed the check of its format but cannot be parsed.');
	}
	return name;
}
