import {dmarcPeriod, dmarcView} from '../../domains/dmarc.ts';
import {readDomainRecords, recordPurposes} from '../../domains/domain-records.ts';
import {addDomain, removeDomain, returnPathFault} from '../../domains/domains.ts';
import {changeLinkHost} from '../../domains/link-host.ts';
import {rotateKeys} from '../../domains/signing-keys.ts';
import {checkDomain, type DomainSight, lookAtDomain, nextCheckAt} from '../../domains/verify-domain.ts';
import {parseDomain} from '../../mail/address.ts';
import {Type} from '../../mail/type.ts';
import {
	type DkimKey,
	type Domain,
	domainStates,
	findDomainById,
	listDkimKeys,
	pageDomains,
} from '../../store/domains.ts';
import type {ApiParts, Routes} from '../api-parts.ts';
import {apiRoute, listRoute} from '../api-route.ts';
import {apiError, unavailable} from '../errors.ts';
import {textOrNull, time} from '../schemas/page.ts';
import {Seats} from '../turns.ts';
import {emptyBody} from '../validate.ts';
import {domainRecordsView, domainView} from '../views.ts';

const tag = 'Domains';
const reads = {tag, scope: 'domains:read', id: 'dom'} as const;
const manages = {tag, scope: 'domains:manage', id: 'dom'} as const;
const domainsPerPage = 25;
/** Of one workspace, at once: each asks several servers. */
const maxChecks = 4;
const maxNamed = 5;

/** Domains of senders: their DNS records, and their keys. */
export function domainRoutes(parts: ApiParts): readonly Routes[] {
	const {reader, change, tools, vault, domains} = parts;
	const seats = new Seats(maxChecks);
	const {clock} = tools;

	async function chosen({workspaceId, id}: {readonly workspaceId: string; readonly id: string}): Promise<Domain> {
		const found = await findDomainById(reader, workspaceId, id);
		if (!found) {
			throw apiError('not_found');
		}
		return found;
	}

	const look = (domain: Domain) => lookAtDomain(reader, domain, domains.names, domains.openSources, clock.now());

	const nextOf = (domain: Domain, keys: readonly DkimKey[]) =>
		domains.areChecked ? nextCheckAt(domain, keys, clock.now()) : null;

	const shown = async ({domain, records}: Pick<DomainSight, 'domain' | 'records'>) =>
		domainRecordsView(domain, nextOf(domain, await listDkimKeys(reader, domain.id)), records);

	const unasked = async (domain: Domain, keys: readonly DkimKey[]) =>
		domainRecordsView(
			domain,
			nextOf(domain, keys),
			await readDomainRecords(reader, domains.names, domain, keys, clock.now()),
		);

	return [
		listRoute(parts, {
			path: '/v1/domains',
			scope: 'domains:read',
			name: 'domains',
			tag,
			summary: 'List domains',
			meaning: 'Domains, newest first.',
			defaultLimit: domainsPerPage,
			item: listedDomainSchema,
			find: ({workspaceId}) => ({read: part => pageDomains(reader, workspaceId, part)}),
			view: domainView,
		}),

		apiRoute(parts, {
			at: 'POST /v1/domains',
			scope: 'domains:manage',
			tag,
			summary: 'Add a domain',
			description:
				'With keys that sign its mail once DNS shows them. Publish the records of the answer, then verify it.',
			answer: [201, 'The domain, with the records to publish.', domainSchema],
			errors: ['conflict', 'unprocessable_entity'],
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
				const {ownHosts} = domains;
				const links = body.link_host === undefined ? null : {host: parsed(body.link_host), ownHosts};
				const input = {workspaceId, name, returnPathDomain, links, keys};
				const added = await change(trx => addDomain(trx, tools, vault, input));
				if (!added) {
					throw apiError('conflict', {message: 'The workspace has this domain already.'});
				}
				return await unasked(added.domain, added.keys);
			},
		}),

		apiRoute(parts, {
			at: 'GET /v1/domains/:id',
			...reads,
			summary: 'Read a domain',
			description: 'Asks DNS now, and changes nothing. That may take some seconds.',
			answer: [200, 'The domain, with its records and what DNS answers.', domainSchema],
			handle: async call => {
				const domain = await chosen(call);
				return await shown(await seats.hold(domain.workspace_id, () => look(domain)));
			},
		}),

		apiRoute(parts, {
			at: 'GET /v1/domains/:id/dmarc',
			...reads,
			summary: 'Read who sends with a domain',
			description:
				'As DMARC reports of the last days say, by address, with what to publish next. Anybody can send such a report. Asks DNS which addresses are yours and what is published.',
			answer: [200, 'The sources, those with most mail first, and the advice.', dmarcSchema],
			query: dmarcQuery,
			async handle({query: {days}, ...call}) {
				const domain = await chosen(call);
				const review = () => domains.reviewDmarc(domain, Number(days ?? dmarcPeriod.usual));
				return dmarcView(await seats.hold(domain.workspace_id, review));
			},
		}),

		apiRoute(parts, {
			at: 'PATCH /v1/domains/:id',
			...manages,
			summary: 'Change a domain',
			description:
				'The host of the links in its mail. It is used once DNS leads it here; until then links name the public URL. What is left out stays as it is.',
			answer: [200, 'The domain, with the records to publish.', domainSchema],
			errors: ['conflict', 'unprocessable_entity'],
			body: domainChanges,
			async handle({tools: acting, body, ...call}) {
				const domain = await chosen(call);
				const {link_host: host = domain.link_host} = body;
				const own = host === domain.link_host || host === null ? host : parsed(host);
				const changed = await change(trx => changeLinkHost(trx, acting, domain, own, domains.ownHosts));
				return await unasked(changed, await listDkimKeys(reader, domain.id));
			},
		}),

		apiRoute(parts, {
			at: 'POST /v1/domains/:id/verify',
			...manages,
			summary: 'Verify a domain',
			description:
				'Asks DNS now and keeps what follows: whether the domain is verified, which keys sign, whether its own return path is used. The body may be left out.',
			answer: [200, 'The domain as it is now, verified or not.', domainSchema],
			body: emptyBody,
			isBodyOptional: true,
			async handle({tools: acting, ...call}) {
				const domain = await chosen(call);
				const find = () => findDomainById(reader, domain.workspace_id, domain.id);
				const checked = await seats.hold(domain.workspace_id, () =>
					checkDomain({find, look, write: change, acting}),
				);
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
			...manages,
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
					throw apiError('conflict', {
						message: 'New keys of the domain wait for DNS already: publish their records.',
					});
				}
				const view = await unasked(domain, rotation.keys);
				return {...view, records: view.records.filter(({purpose}) => purpose === 'dkim')};
			},
		}),

		apiRoute(parts, {
			at: 'DELETE /v1/domains/:id',
			...manages,
			summary: 'Remove a domain',
			description: 'With its keys: mail that is on its way may fail DKIM. Remove its senders first.',
			answer: [204, 'It is gone.', null],
			errors: ['conflict'],
			async handle({tools: acting, ...call}) {
				const domain = await chosen(call);
				const senders = await change(trx => removeDomain(trx, acting, domain));
				if (senders) {
					const named = [...senders.slice(0, maxNamed), ...(senders.length > maxNamed ? ['…'] : [])].join(
						', ',
					);
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

const host = (description: string) => Type.Optional(Type.String({format: 'domain', description}));

/** The body of an addition. */
const domainBody = Type.Object(
	{
		name: Type.String({format: 'domain', description: 'The domain of `From` addresses, such as `shop.example`.'}),
		return_path_domain: host('Where its bounces go, a host below the domain; absent: `bounce.` and the domain.'),
		link_host: host('The host of links in its mail, below the domain; absent: that of the public URL.'),
	},
	{additionalProperties: false, examples: [{name: 'shop.example', link_host: 'links.shop.example'}]},
);

/** The body of a change. */
const domainChanges = Type.Object(
	{
		link_host: Type.Optional(
			Type.Union([Type.String({format: 'domain'}), Type.Null()], {
				description: 'The host of links in its mail, below the domain; null: that of the public URL.',
			}),
		),
	},
	{additionalProperties: false, examples: [{link_host: 'links.shop.example'}]},
);

const fields = {
	id: Type.String(),
	name: Type.String({description: 'A-labels.'}),
	verified: Type.Boolean({description: 'DNS shows that the workspace controls the domain. Senders need it.'}),
	state: Type.Enum([...domainStates], {description: '`degraded`: verified, but DNS lacks the records of late.'}),
	state_at: time,
	verified_at: textOrNull('Since when it is verified.'),
	checked_at: textOrNull('When DNS was last asked.'),
	return_path_domain: Type.String({description: 'The host of its own return path.'}),
	return_path_used: Type.Boolean({description: 'Bounces go there: DNS shows its MX and SPF.'}),
	link_host: textOrNull('The host of links in its mail; null: that of the public URL.'),
	link_host_used: Type.Boolean({
		description: 'DNS leads it here. Where this installation serves https, it needs a certificate too.',
	}),
	created_at: time,
};

const example = {
	id: 'dom_01kaxq7w0c8m2v5t9d3f6h1j4n',
	name: 'shop.example',
	verified: false,
	state: 'pending',
	state_at: '2026-06-09T10:15:30+00:00',
	verified_at: null,
	checked_at: '2026-06-09T10:16:30+00:00',
	return_path_domain: 'bounce.shop.example',
	return_path_used: false,
	link_host: null,
	link_host_used: false,
	created_at: '2026-06-09T10:15:30+00:00',
};

const days = Type.String({
	format: 'day-count',
	description: `Days to look back on: 1 to ${dmarcPeriod.most}, by default ${dmarcPeriod.usual}.`,
});
const dmarcQuery = Type.Object({days: Type.Optional(days)}, {additionalProperties: false});

const mails = (description: string) => Type.Integer({description});

const dmarcFields = {
	days: Type.Integer(),
	reports: Type.Integer({description: 'Reports that came, each counted once.'}),
	unsigned: mails('Messages in reports that their reporters did not sign; the advice ignores them.'),
	sources: Type.Array(
		Type.Object({
			ip: Type.String({description: 'An address, or `others`: the total of the groups beyond the limits.'}),
			count: mails('Mails.'),
			aligned: mails('Of them, those that pass DMARC: by SPF, by DKIM, or both.'),
			spf: mails('Those whose SPF passes for the domain.'),
			dkim: mails('Those whose DKIM signature passes for the domain.'),
			ours: Type.Boolean({description: 'The SPF record of our return path lets the address send.'}),
			why: Type.String({description: 'Why most of those that are not aligned are not; empty: all are.'}),
		}),
	),
	advice: Type.Object({
		policy: textOrNull('The policy that DNS shows.'),
		next: textOrNull('The policy to publish.'),
		change: Type.Boolean({
			description: 'Whether the policy is to change, or is to hold for all mail; else it stays.',
		}),
		name: Type.String({description: 'The name of the record.'}),
		record: Type.String({description: 'The record to publish, with the other tags of the one that is there.'}),
		why: Type.String(),
		days: Type.Integer({description: `Days that it is judged by: \`days\`, at least ${dmarcPeriod.usual}.`}),
		cost: Type.Object(
			{ours: Type.Integer(), others: Type.Integer()},
			{description: 'Mails of these days that `quarantine` or `reject` would have stopped, by signed reports.'},
		),
	}),
	tls: Type.Array(Type.Object({policy: Type.String(), result: Type.String(), count: Type.Integer()}), {
		description: 'Connections to the host of the return path, as TLS reports say, failures first.',
	}),
};

const dmarcSchema = Type.Object(dmarcFields, {
	examples: [
		{
			days: 30,
			reports: 41,
			unsigned: 0,
			sources: [{ip: '192.0.2.1', count: 2310, aligned: 2310, spf: 2310, dkim: 2308, ours: true, why: ''}],
			advice: {
				...{policy: 'none', next: 'quarantine', name: '_dmarc.shop.example', record: 'v=DMARC1; p=quarantine'},
				...{
					change: true,
					why: '2,310 of your 2,310 messages are aligned',
					days: 30,
					cost: {ours: 0, others: 0},
				},
			},
			tls: [{policy: 'sts', result: 'success', count: 812}],
		},
	],
});

/** A domain in a list. */
const listedDomainSchema = Type.Object(fields, {examples: [example]});

const record = Type.Object({
	type: Type.Enum(['TXT', 'MX', 'CNAME']),
	name: Type.String(),
	value: Type.String({description: 'Whole, as most DNS panels take it; empty where it is not `ready`.'}),
	purpose: Type.Enum([...recordPurposes]),
	required: Type.Boolean({
		description: 'Without it mail fails checks. Ownership or one DKIM record verifies the domain.',
	}),
	found: Type.Array(Type.String(), {description: 'What DNS answered.'}),
	key: Type.Union(
		[
			Type.Object({
				id: Type.String(),
				algorithm: Type.Enum(['rsa-sha256', 'ed25519-sha256']),
				state: Type.Enum(['active', 'pending', 'retired'], {
					description:
						'`pending`: it signs once DNS shows it; `retired`: its record stays until `keep_until`.',
				}),
				keep_until: textOrNull('Until then the record of a retired key has to stay.'),
			}),
			Type.Null(),
		],
		{description: 'The key that a DKIM record publishes.'},
	),
	alike: Type.Array(Type.String(), {description: 'Of an MX: names whose mail goes the same way.'}),
	note: textOrNull('What to know before it is published.'),
	ready: Type.Boolean({
		description:
			'False: the value would have a name that only this machine knows; `note` says which setting to set first.',
	}),
	ok: Type.Optional(Type.Boolean({description: 'DNS answers what is to be published; absent: it was not asked.'})),
	state: Type.Optional(Type.Enum(['ok', 'missing', 'different', 'unknown'])),
	problem: Type.Optional(textOrNull('What is wrong, or right but remarkable.')),
});

/** A domain with the records to publish. */
const domainSchema = Type.Object(
	{
		...fields,
		next_check_at: textOrNull('When DNS is asked again; null: it is not.'),
		records: Type.Array(record),
	},
	{
		examples: [
			{
				...example,
				next_check_at: '2026-06-09T10:17:30+00:00',
				records: [
					{
						type: 'TXT',
						name: '_mailctl.shop.example',
						value: 'mailctl-verification=0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c',
						purpose: 'ownership',
						required: true,
						found: [],
						key: null,
						alike: [],
						note: null,
						ready: true,
						ok: false,
						state: 'missing',
						problem: null,
					},
				],
			},
		],
	},
);
