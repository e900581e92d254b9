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
/** The maximum number of concurrent checks per workspace: each one queries several DNS servers. */
const maxChecks = 4;
const maxNamed = 5;

/** Returns the routes of sender domains: their DNS records and their DKIM keys. */
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
				'Creates the domain and its DKIM keys, which sign once their records are published. Publish the records in the response, then verify the domain.',
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
					throw apiError('conflict', {message: 'This workspace already has this domain.'});
				}
				return await unasked(added.domain, added.keys);
			},
		}),

		apiRoute(parts, {
			at: 'GET /v1/domains/:id',
			...reads,
			summary: 'Get a domain',
			description: 'Queries DNS now, which may take a few seconds. Nothing is changed.',
			answer: [200, 'The domain, with its records and what DNS returns for them.', domainSchema],
			handle: async call => {
				const domain = await chosen(call);
				return await shown(await seats.hold(domain.workspace_id, () => look(domain)));
			},
		}),

		apiRoute(parts, {
			at: 'GET /v1/domains/:id/dmarc',
			...reads,
			summary: 'Get the DMARC sources of a domain',
			description:
				'Lists the sending addresses in recent DMARC reports and recommends the next policy. Anyone can send such a report. Queries DNS for your addresses and your current policy.',
			answer: [200, 'The sources, most messages first, and the advice.', dmarcSchema],
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
			summary: 'Update a domain',
			description:
				'Sets the host of the links in its messages. It is used once it resolves to this installation; until then links use the public URL. Omitted fields stay unchanged.',
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
				'Queries DNS now and saves the result: whether the domain is verified, which keys sign, and whether its own return path is used. The body may be omitted.',
			answer: [200, 'The domain after the check, verified or not.', domainSchema],
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
				'New keys sign once their records are published; the old ones sign until then. The body may be omitted.',
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
						message: 'A key rotation is already in progress: publish the records of the new keys.',
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
			description: 'Also removes its keys: messages in transit may fail DKIM. Remove its senders first.',
			answer: [204, 'The domain was removed.', null],
			errors: ['conflict'],
			async handle({tools: acting, ...call}) {
				const domain = await chosen(call);
				const senders = await change(trx => removeDomain(trx, acting, domain));
				if (senders) {
					const named = [...senders.slice(0, maxNamed), ...(senders.length > maxNamed ? ['…'] : [])].join(
						', ',
					);
					throw apiError('conflict', {message: `The domain has senders (${named}). Remove them first.`});
				}
			},
		}),
	];
}

function parsed(text: string): string {
	const name = parseDomain(text);
	if (name === null) {
		throw new Error('A domain passed the check of its format but cannot be parsed.');
	}
	return name;
}

const host = (description: string) => Type.Optional(Type.String({format: 'domain', description}));

/** The body that adds a domain. */
const domainBody = Type.Object(
	{
		name: Type.String({format: 'domain', description: 'The domain of `From` addresses, such as `shop.example`.'}),
		return_path_domain: host('The host for bounces, below the domain. Defaults to `bounce.` and the domain.'),
		link_host: host('The host of links in its messages, below the domain. Defaults to that of the public URL.'),
	},
	{additionalProperties: false, examples: [{name: 'shop.example', link_host: 'links.shop.example'}]},
);

/** The body that changes a domain. */
const domainChanges = Type.Object(
	{
		link_host: Type.Optional(
			Type.Union([Type.String({format: 'domain'}), Type.Null()], {
				description: 'The host of links in its messages, below the domain; `null` for that of the public URL.',
			}),
		),
	},
	{additionalProperties: false, examples: [{link_host: 'links.shop.example'}]},
);

const fields = {
	id: Type.String(),
	name: Type.String({description: 'The domain; internationalized names as A-labels (`xn--…`).'}),
	verified: Type.Boolean({description: 'Whether DNS proves control of the domain. Required for its senders.'}),
	state: Type.Enum([...domainStates], {description: '`degraded`: verified, but its records are now missing in DNS.'}),
	state_at: time,
	verified_at: textOrNull('When it was verified; `null` if it is not.'),
	checked_at: textOrNull('When DNS was last queried.'),
	return_path_domain: Type.String({description: 'The host of the return path of this domain.'}),
	return_path_used: Type.Boolean({description: 'Whether bounces go there: its MX and SPF are published.'}),
	link_host: textOrNull('The host of links in its messages; `null` for that of the public URL.'),
	link_host_used: Type.Boolean({
		description: 'Whether links use it: it resolves to this installation and, for HTTPS, has a certificate.',
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
	description: `The number of days to look back: 1 to ${dmarcPeriod.most}, ${dmarcPeriod.usual} by default.`,
});
const dmarcQuery = Type.Object({days: Type.Optional(days)}, {additionalProperties: false});

const mails = (description: string) => Type.Integer({description});

const dmarcFields = {
	days: Type.Integer(),
	reports: Type.Integer({description: 'Reports received, each counted once.'}),
	unsigned: mails('Messages in reports without a valid signature. The advice ignores them.'),
	sources: Type.Array(
		Type.Object({
			ip: Type.String({description: 'An IP address, or `others` for all sources beyond the limits.'}),
			count: mails('Messages.'),
			aligned: mails('Messages that pass DMARC: by SPF, DKIM, or both.'),
			spf: mails('Messages whose SPF passes for the domain.'),
			dkim: mails('Messages whose DKIM signature passes for the domain.'),
			ours: Type.Boolean({description: 'Whether the SPF record of our return path allows this address.'}),
			why: Type.String({description: 'The main reason for messages not being aligned; empty if all are.'}),
		}),
	),
	advice: Type.Object({
		policy: textOrNull('The published policy.'),
		next: textOrNull('The recommended policy.'),
		change: Type.Boolean({
			description: 'Whether to publish a new record: a stricter policy, or the same one for all messages.',
		}),
		name: Type.String({description: 'The name of the record.'}),
		record: Type.String({description: 'The record to publish. It retains the other tags of the current one.'}),
		why: Type.String(),
		days: Type.Integer({description: `The days that the advice is based on: at least ${dmarcPeriod.usual}.`}),
		cost: Type.Object(
			{ours: Type.Integer(), others: Type.Integer()},
			{description: 'Messages that `quarantine` or `reject` would have stopped, by signed reports.'},
		),
	}),
	tls: Type.Array(Type.Object({policy: Type.String(), result: Type.String(), count: Type.Integer()}), {
		description: 'Connections to the host of the return path, from TLS reports, failures first.',
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

/** A domain in lists. */
const listedDomainSchema = Type.Object(fields, {examples: [example]});

const record = Type.Object({
	type: Type.Enum(['TXT', 'MX', 'CNAME']),
	name: Type.String(),
	value: Type.String({description: 'The complete value, as most DNS panels accept it; empty unless `ready`.'}),
	purpose: Type.Enum([...recordPurposes]),
	required: Type.Boolean({
		description: 'Whether messages fail checks without it. Ownership or one DKIM record verifies the domain.',
	}),
	found: Type.Array(Type.String(), {description: 'What DNS returned.'}),
	key: Type.Union(
		[
			Type.Object({
				id: Type.String(),
				algorithm: Type.Enum(['rsa-sha256', 'ed25519-sha256']),
				state: Type.Enum(['active', 'pending', 'retired'], {
					description:
						'`pending` keys sign once their record is published. The record of a `retired` key must stay until `keep_until`.',
				}),
				keep_until: textOrNull('How long the record of a retired key must stay published.'),
			}),
			Type.Null(),
		],
		{description: 'The key of a DKIM record; `null` for other records.'},
	),
	alike: Type.Array(Type.String(), {description: 'For an MX record: names that lead to the same mail server.'}),
	note: textOrNull('Advice to read before publishing the record.'),
	ready: Type.Boolean({
		description:
			'`false` if the value would contain a name that only this machine knows. `note` says which setting to change first.',
	}),
	ok: Type.Optional(Type.Boolean({description: 'Whether DNS returns this record. Absent if DNS was not queried.'})),
	state: Type.Optional(Type.Enum(['ok', 'missing', 'different', 'unknown'])),
	problem: Type.Optional(textOrNull('The problem, or a remark on a correct record.')),
});

/** A domain with its DNS records. */
const domainSchema = Type.Object(
	{
		...fields,
		next_check_at: textOrNull('When DNS is queried next; `null` if no check is scheduled.'),
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
