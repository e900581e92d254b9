import {domainRecords} from '../../domains/domain-records.ts';
import {addDomain, removeDomain, returnPathFault} from '../../domains/domains.ts';
import {rotateKeys} from '../../domains/signing-keys.ts';
import {checkDomain, type DomainSight, lookAtDomain, nextCheckAt} from '../../domains/verify-domain.ts';
import {parseDomain} from '../../mail/address.ts';
import {type DkimKey, type Domain, findDomainById, listDkimKeys, pageDomains} from '../../store/domains.ts';
import type {ApiParts, Routes} from '../api-parts.ts';
import {apiRoute, listRoute} from '../api-route.ts';
import {apiError, unavailable} from '../errors.ts';
import {domainBody, domainSchema, listedDomainSchema} from '../schemas/domain.ts';
import {createSeats} from '../turns.ts';
import {emptyBody} from '../validate.ts';
import {domainRecordsView, domainView} from '../views.ts';

const domainsPerPage = 25;
/** Of one workspace, at once: each asks several servers. */
const mostAsked = 4;
const mostNamed = 5;

/** Domains of senders: their DNS records, and their keys. */
export function domainRoutes(parts: ApiParts): readonly Routes[] {
	const {reader, change, tools, vault, domains} = parts;
	const takeSeat = createSeats(mostAsked);
	const {clock} = tools;

	async function chosen({workspaceId, id}: {readonly workspaceId: string; readonly id: string}): Promise<Domain> {
		const found = await findDomainById(reader, workspaceId, id);
		if (!found) {
			throw apiError('not_found');
		}
		return found;
	}

	async function asking<Result>({workspace_id: owner}: Domain, work: () => Promise<Result>): Promise<Result> {
		const leave = takeSeat(owner);
		if (leave === undefined) {
			throw unavailable();
		}
		try {
			return await work();
		} finally {
			leave();
		}
	}

	const look = (domain: Domain) => lookAtDomain(reader, domain, domains.names, domains.openSources, clock.now());

	const nextOf = (domain: Domain, keys: readonly DkimKey[]) =>
		domains.areChecked ? nextCheckAt(domain, keys, clock.now()) : null;

	const shown = async ({domain, records}: Pick<DomainSight, 'domain' | 'records'>) =>
		domainRecordsView(domain, nextOf(domain, await listDkimKeys(reader, domain.id)), records);

	const unasked = (domain: Domain, keys: readonly DkimKey[]) =>
		domainRecordsView(domain, nextOf(domain, keys), domainRecords({...domains.names, domain, keys}));

	return [
		listRoute(parts, {
			path: '/v1/domains',
			scope: 'domains:read',
			name: 'domains',
			tag: 'Domains',
			summary: 'List domains',
			meaning: 'Domains, newest first.',
			usualLimit: domainsPerPage,
			item: listedDomainSchema,
			find: ({workspaceId}) => ({read: part => pageDomains(reader, workspaceId, part)}),
			view: domainView,
		}),

		apiRoute(parts, {
			at: 'POST /v1/domains',
			scope: 'domains:manage',
			tag: 'Domains',
			summary: 'Add a domain',
			description:
				'With keys that sign its mail once DNS shows them. Publish the records of the answer, then verify it.',
			answer: [201, 'The domain, with the records to publish.', domainSchema],
			errors: ['conflict'],
			body: domainBody,
			async handle({workspaceId, body, tools}) {
				const name = parsed(body.name);
				const own = body.return_path_domain;
				const returnPathDomain = own === undefined ? null : parsed(own);
				const message = returnPathFault(name, returnPathDomain);
				if (message !== null) {
					throw apiError('validation_failed', {violations: [{field: 'return_path_domain', message}]});
				}
				const keys = await domains.makeKeys(workspaceId);
				const input = {workspaceId, name, returnPathDomain, keys};
				const added = await change(trx => addDomain(trx, tools, vault, input));
				if (!added) {
					throw apiError('conflict', {message: 'The workspace has this domain already.'});
				}
				return unasked(added.domain, added.keys);
			},
		}),

		apiRoute(parts, {
			at: 'GET /v1/domains/:id',
			scope: 'domains:read',
			id: 'dom',
			tag: 'Domains',
			summary: 'Read a domain',
			description: 'Asks DNS now, and changes nothing. That may take some seconds.',
			answer: [200, 'The domain, with its records and what DNS answers.', domainSchema],
			handle: async call => {
				const domain = await chosen(call);
				return await shown(await asking(domain, () => look(domain)));
			},
		}),

		apiRoute(parts, {
			at: 'POST /v1/domains/:id/verify',
			scope: 'domains:manage',
			id: 'dom',
			tag: 'Domains',
			summary: 'Verify a domain',
			description:
				'Asks DNS now and keeps what follows: whether the domain is verified, which keys sign, whether its own return path is used. The body may be left out.',
			answer: [200, 'The domain as it is now, verified or not.', domainSchema],
			body: emptyBody,
			isBodyOptional: true,
			async handle({tools: acting, ...call}) {
				const domain = await chosen(call);
				const find = () => findDomainById(reader, domain.workspace_id, domain.id);
				const checked = await asking(domain, () => checkDomain({find, look, write: change, acting}));
				if (checked === undefined) {
					throw apiError('not_found');
				}
				if (checked === 'busy') {
					throw unavailable();
				}
				return await shown(checked);
			},
		}),

		apiRoute(parts, {
			at: 'POST /v1/domains/:id/rotate-key',
			scope: 'domains:manage',
			id: 'dom',
			tag: 'Domains',
			summary: 'Rotate the keys of a domain',
			description:
				'New keys sign once DNS shows their records; the old ones sign until then. The body may be left out.',
			answer: [200, 'The domain, with the records of the new keys.', domainSchema],
			errors: ['conflict'],
			body: emptyBody,
			isBodyOptional: true,
			async handle({tools: acting, ...call}) {
				const domain = await chosen(call);
				const keys = await domains.makeKeys(domain.workspace_id);
				const input = {domain, keys, selector: null};
				const rotation = await change(trx => rotateKeys(trx, acting, vault, input));
				if (rotation.kind !== 'begun') {
					throw apiError('conflict', {message: 'New keys of the domain wait for DNS already: publish their records.'});
				}
				const view = unasked(domain, rotation.keys);
				return {...view, records: view.records.filter(({purpose}) => purpose === 'dkim')};
			},
		}),

		apiRoute(parts, {
			at: 'DELETE /v1/domains/:id',
			scope: 'domains:manage',
			id: 'dom',
			tag: 'Domains',
			summary: 'Remove a domain',
			description: 'With its keys: mail that is on its way may fail DKIM. Remove its senders first.',
			answer: [204, 'It is gone.', null],
			errors: ['conflict'],
			async handle({tools: acting, ...call}) {
				const domain = await chosen(call);
				const senders = await change(trx => removeDomain(trx, acting, domain));
				if (senders) {
					const named = [...senders.slice(0, mostNamed), ...(senders.length > mostNamed ? ['…'] : [])].join(', ');
					throw apiError('conflict', {message: `The domain has senders (${named}): remove them first.`});
				}
			},
		}),
	];
}

function parsed(text: string): string {
	const name = parseDomain(text);
	if (name === null) {
		throw new Error('A domain that passed the check of its format does not parse.');
	}
	return name;
}
