import {Type} from '../../mail/type.ts';
import {textOrNull, time} from '../page-schema.ts';
import {dmarcPeriod} from './dmarc.ts';
import {recordPurposes} from './domain-records.ts';
import {domainStates} from './store.ts';

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
	description: `The number of days to look back: 1 to ${dmarcPeriod.max}, ${dmarcPeriod.default} by default.`,
});
export const dmarcQuery = Type.Object({days: Type.Optional(days)}, {additionalProperties: false});

const messageCount = (description: string) => Type.Integer({description});

const dmarcFields = {
	days: Type.Integer(),
	reports: Type.Integer({description: 'Reports received, each counted once.'}),
	unsigned: messageCount('Messages in reports without a valid signature. The advice ignores them.'),
	sources: Type.Array(
		Type.Object({
			ip: Type.String({description: 'An IP address, or `others` for all sources beyond the limits.'}),
			count: messageCount('Messages.'),
			aligned: messageCount('Messages that pass DMARC: by SPF, DKIM, or both.'),
			spf: messageCount('Messages whose SPF passes for the domain.'),
			dkim: messageCount('Messages whose DKIM signature passes for the domain.'),
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
		days: Type.Integer({description: `The days that the advice is based on: at least ${dmarcPeriod.default}.`}),
		cost: Type.Object(
			{ours: Type.Integer(), others: Type.Integer()},
			{description: 'Messages that `quarantine` or `reject` would have stopped, by signed reports.'},
		),
	}),
	tls: Type.Array(Type.Object({policy: Type.String(), result: Type.String(), count: Type.Integer()}), {
		description: 'Connections to the host of the return path, from TLS reports, failures first.',
	}),
};

export const dmarcSchema = Type.Object(dmarcFields, {
	examples: [
		{
			days: 30,
			reports: 41,
			unsigned: 0,
			sources: [{ip: '192.0.2.1', count: 2310, aligned: 2310, spf: 2310, dkim: 2308, ours: true, why: ''}],
			advice: {
				policy: 'none',
				next: 'quarantine',
				name: '_dmarc.shop.example',
				record: 'v=DMARC1; p=quarantine',
				change: true,
				why: '2,310 of your 2,310 messages are aligned',
				days: 30,
				cost: {ours: 0, others: 0},
			},
			tls: [{policy: 'sts', result: 'success', count: 812}],
		},
	],
});

/** A domain in lists. */
export const listedDomainSchema = Type.Object(fields, {examples: [example]});

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
export const domainSchema = Type.Object(
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
