import type {TypeBoxTypeProvider} from '@fastify/type-provider-typebox';
import type {FastifyRequest} from 'fastify';
import {domainRecords} from '../../domains/domain-records.ts';
import {nextCheckAt} from '../../domains/domain-state.ts';
import {addDomain, removeDomain, returnPathFault} from '../../domains/domains.ts';
import {rotateKeys} from '../../domains/signing-keys.ts';
import {checkDomain, type DomainSight, lookAtDomain} from '../../domains/verify-domain.ts';
import {parseDomain} from '../../mail/address.ts';
import {isId} from '../../mail/ids.ts';
import {type DkimKey, type Domain, findDomainById, listDkimKeys, pageDomains} from '../../store/domains.ts';
import type {ApiParts} from '../api-parts.ts';
import {actAs, callerOf} from '../auth.ts';
import {describe} from '../describe.ts';
import {apiError, unavailable} from '../errors.ts';
import {listRoute} from '../operation-route.ts';
import {checkBody, emptyBody, optionalBody} from '../optional-body.ts';
import {noQuery} from '../paging.ts';
import {domainBody, domainSchema, listedDomainSchema} from '../schemas/domain.ts';
import {idParams} from '../schemas/page.ts';
import {createSeats} from '../seats.ts';
import type {Routes} from '../server.ts';
import {createChecks} from '../validate.ts';
import {domainRecordsView, domainView} from '../views.ts';

const domainsPerPage = 25;
/** Of one workspace, at once: each asks several servers. */
const mostAsked = 4;
const mostNamed = 5;

/** Domains of senders: their DNS records, and their keys. */
export function domainRoutes({auth, reader, change, tools, vault, cursors, domains}: ApiParts): Routes {
	const takeSeat = createSeats(mostAsked);
	const {clock} = tools;

	async function chosen({params, caller}: {params: {id: string}; caller: FastifyRequest['caller']}): Promise<Domain> {
		const {id} = params;
		const found = isId('dom', id) ? await findDomainById(reader, caller?.workspaceId ?? '', id) : undefined;
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

	return api => {
		const routes = api.withTypeProvider<TypeBoxTypeProvider>();

		listRoute(
			{auth, cursors},
			{
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
			},
		)(api);

		routes.post(
			'/v1/domains',
			{
				onRequest: auth.needs('domains:manage'),
				schema: {
					...describe({
						tag: 'Domains',
						summary: 'Add a domain',
						description:
							'With keys that sign its mail once DNS shows them. Publish the records of the answer, then verify it.',
						answer: [201, 'The domain, with the records to publish.', domainSchema],
						errors: ['conflict'],
					}),
					querystring: noQuery,
					body: domainBody,
				},
			},
			async (request, reply) => {
				const {workspaceId} = callerOf(request);
				const name = parsed(request.body.name);
				const own = request.body.return_path_domain;
				const returnPathDomain = own === undefined ? null : parsed(own);
				const message = returnPathFault(name, returnPathDomain);
				if (message !== null) {
					throw apiError('validation_failed', {violations: [{field: 'return_path_domain', message}]});
				}
				const keys = await domains.makeKeys(workspaceId);
				const input = {workspaceId, name, returnPathDomain, keys};
				const added = await change(trx => addDomain(trx, actAs(tools, request), vault, input));
				if (!added) {
					throw apiError('conflict', {message: 'The workspace has this domain already.'});
				}
				return reply.code(201).send(unasked(added.domain, added.keys));
			},
		);

		routes.get(
			'/v1/domains/:id',
			{
				onRequest: auth.needs('domains:read'),
				schema: {
					...describe({
						tag: 'Domains',
						summary: 'Read a domain',
						description: 'Asks DNS now, and changes nothing. That may take some seconds.',
						answer: [200, 'The domain, with its records and what DNS answers.', domainSchema],
						errors: ['not_found'],
					}),
					querystring: noQuery,
					params: idParams('dom'),
				},
			},
			async request => {
				const domain = await chosen(request);
				return await shown(await asking(domain, () => look(domain)));
			},
		);

		routes.post(
			'/v1/domains/:id/verify',
			{
				onRequest: auth.needs('domains:manage'),
				schema: {
					...describe({
						tag: 'Domains',
						summary: 'Verify a domain',
						description:
							'Asks DNS now and keeps what follows: whether the domain is verified, which keys sign, whether its own return path is used. The body may be left out.',
						answer: [200, 'The domain as it is now, verified or not.', domainSchema],
						errors: ['not_found'],
					}),
					querystring: noQuery,
					params: idParams('dom'),
					body: emptyBody,
				},
				validatorCompiler: optionalBody(createChecks()),
			},
			async request => {
				checkBody(request);
				const domain = await chosen(request);
				const find = () => findDomainById(reader, domain.workspace_id, domain.id);
				const acting = actAs(tools, request);
				const checked = await asking(domain, () => checkDomain({find, look, write: change, acting}));
				if (checked === undefined) {
					throw apiError('not_found');
				}
				if (checked === 'busy') {
					throw unavailable();
				}
				return await shown(checked);
			},
		);

		routes.post(
			'/v1/domains/:id/rotate-key',
			{
				onRequest: auth.needs('domains:manage'),
				schema: {
					...describe({
						tag: 'Domains',
						summary: 'Rotate the keys of a domain',
						description:
							'New keys sign once DNS shows their records; the old ones sign until then. The body may be left out.',
						answer: [200, 'The domain, with the records of the new keys.', domainSchema],
						errors: ['not_found', 'conflict'],
					}),
					querystring: noQuery,
					params: idParams('dom'),
					body: emptyBody,
				},
				validatorCompiler: optionalBody(createChecks()),
			},
			async request => {
				checkBody(request);
				const domain = await chosen(request);
				const keys = await domains.makeKeys(domain.workspace_id);
				const input = {domain, keys, selector: null};
				const rotation = await change(trx => rotateKeys(trx, actAs(tools, request), vault, input));
				if (rotation.kind !== 'begun') {
					throw apiError('conflict', {message: 'New keys of the domain wait for DNS already: publish their records.'});
				}
				const view = unasked(domain, rotation.keys);
				return {...view, records: view.records.filter(({purpose}) => purpose === 'dkim')};
			},
		);

		routes.delete(
			'/v1/domains/:id',
			{
				onRequest: auth.needs('domains:manage'),
				schema: {
					...describe({
						tag: 'Domains',
						summary: 'Remove a domain',
						description: 'With its keys: mail that is on its way may fail DKIM. Remove its senders first.',
						answer: [204, 'It is gone.', null],
						errors: ['not_found', 'conflict'],
					}),
					querystring: noQuery,
					params: idParams('dom'),
				},
			},
			async (request, reply) => {
				const domain = await chosen(request);
				const senders = await change(trx => removeDomain(trx, actAs(tools, request), domain));
				if (senders) {
					const named = [...senders.slice(0, mostNamed), ...(senders.length > mostNamed ? ['…'] : [])].join(', ');
					throw apiError('conflict', {message: `The domain has senders (${named}): remove them first.`});
				}
				return reply.code(204).send();
			},
		);
	};
}

function parsed(text: string): string {
	const name = parseDomain(text);
	if (name === null) {
		throw new Error('A domain that passed the check of its format does not parse.');
	}
	return name;
}
