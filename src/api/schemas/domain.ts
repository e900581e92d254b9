import {Type} from '../../mail/type.ts';
import {domainStates} from '../../store/domains.ts';
import {time} from './page.ts';

const textOrNull = (description: string) => Type.Union([Type.String(), Type.Null()], {description});

/** The body of an addition. */
export const domainBody = Type.Object(
	{
		name: Type.String({format: 'domain', description: 'The domain of `From` addresses, such as `shop.example`.'}),
		return_path_domain: Type.Optional(
			Type.String({
				format: 'domain',
				description: 'Where its bounces go, a host below the domain; absent: `bounce.` and the domain.',
			}),
		),
	},
	{additionalProperties: false, examples: [{name: 'shop.example'}]},
);

const fields = {
	id: Type.String(),
	name: Type.String({description: 'A-labels.'}),
	verified: Type.Boolean({description: 'DNS shows that whoever added the domain controls it. Senders need it.'}),
	state: Type.Enum([...domainStates], {description: '`degraded`: verified, but DNS lacks the records of late.'}),
	state_at: time,
	verified_at: textOrNull('Since when it is verified.'),
	checked_at: textOrNull('When DNS was last asked.'),
	return_path_domain: Type.String({description: 'The host of its own return path.'}),
	return_path_used: Type.Boolean({description: 'Bounces go there: DNS shows its MX and SPF.'}),
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
	created_at: '2026-06-09T10:15:30+00:00',
};

/** A domain in a list. */
export const listedDomainSchema = Type.Object(fields, {examples: [example]});

const record = Type.Object({
	type: Type.Enum(['TXT', 'MX', 'CNAME']),
	name: Type.String(),
	value: Type.String({description: 'Whole, as most DNS panels take it; empty where it is not `ready`.'}),
	purpose: Type.Enum(['ownership', 'dkim', 'return_path', 'spf', 'dmarc']),
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
					description: '`pending`: it signs once DNS shows it; `retired`: its record stays until `keep_until`.',
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
			'False: set MAILCTL_HOSTNAME first, the value would have a name that only this machine knows; `note` says so.',
	}),
	ok: Type.Optional(Type.Boolean({description: 'DNS answers what is to be published; absent: it was not asked.'})),
	state: Type.Optional(Type.Enum(['ok', 'missing', 'different', 'unknown'])),
	problem: Type.Optional(textOrNull('What is wrong, or right but remarkable.')),
});

/** A domain with the records to publish. */
export const domainSchema = Type.Object(
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
