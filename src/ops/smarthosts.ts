import {storeTime} from '../kit/time.ts';
import {apiKeyHash} from '../mail/api-key.ts';
import {optionalEvents, providerNames} from '../mail/provider.ts';
import {Type} from '../mail/type.ts';
import {isSigningKey} from '../providers/proofs.ts';
import {providers} from '../providers/providers.ts';
import {
	deleteSmarthost,
	findSmarthost,
	insertSmarthost,
	listSmarthosts,
	type Smarthost,
	updateSmarthost,
} from '../store/smarthosts.ts';
import {notFound, type OperationContext, operation, Refused, unusable} from './operation.ts';

/** A smarthost with what is shown only now. */
export type NewSmarthost = {
	readonly row: Smarthost;
	/** The last part of its URL; null: it stays as it was. */
	readonly token: string | null;
	/** Null: the provider's posts are signed with keys of its own. */
	readonly secret: string | null;
};

const tokenBytes = 24;
const secretBytes = 32;
/** Of a workspace, and of the installation. */
const maxSmarthosts = 50;
const id = Type.String({description: 'The smarthost.'});
const secret = Type.Optional(
	Type.String({
		minLength: 8,
		maxLength: 4096,
		description:
			'The key that the provider shows: Mailgun’s signing key, SendGrid’s public key. Absent: one is made.',
	}),
);
const manages = {scope: 'smarthosts:manage', role: 'admin', fresh: true} as const;
const apply = 'a file has no secrets';

/** The token and the secret of a smarthost that is made or renewed, and what the store has of them. */
async function credentials(
	{vault, tools}: Pick<OperationContext, 'vault' | 'tools'>,
	own: Pick<Smarthost, 'id' | 'provider'>,
	given: string | undefined,
) {
	const {secret: origin} = providers[own.provider];
	if (own.provider === 'sendgrid' && given !== undefined && !isSigningKey(given)) {
		throw unusable('secret', 'must be the public key that SendGrid shows for its signed event webhook');
	}
	const made =
		origin === 'none' || own.provider === 'sendgrid' ? null : tools.random(secretBytes).toString('base64url');
	const value = given ?? made;
	const token = tools.random(tokenBytes).toString('base64url');
	return {
		token,
		secret: value,
		stored: {token_hash: apiKeyHash(token), secret: value && (await vault()).seal(own.id, value), topic: null},
	};
}

/** Its events are about mail of its workspace; without one, of every workspace. */
export const addSmarthost = operation({
	...manages,
	name: 'smarthost add',
	without: {apply},
	input: Type.Object(
		{
			provider: Type.Enum([...providerNames], {
				description: 'Who posts; `generic`: anyone, in the form of our own webhooks.',
			}),
			secret,
			takes: Type.Optional(
				Type.Array(Type.Enum([...optionalEvents]), {
					description: 'What counts besides deliveries, bounces, complaints and delays; nothing unless said.',
				}),
			),
		},
		{additionalProperties: false, examples: [{provider: 'ses'}]},
	),
	async run(context: OperationContext<string | null>, {provider, secret: given, takes = []}): Promise<NewSmarthost> {
		const {trx, tools, workspaceId} = context;
		const others = await listSmarthosts(trx, workspaceId);
		if (others.filter(one => one.workspace_id === workspaceId).length >= maxSmarthosts) {
			const wrong = `there are ${maxSmarthosts} smarthosts already`;
			throw new Refused('conflict', {
				wrong,
				next: 'remove one first',
				api: `There are ${maxSmarthosts} smarthosts already.`,
			});
		}
		const own = {id: tools.newId('smh'), provider};
		const {token, secret: shown, stored} = await credentials(context, own, given);
		const created_at = storeTime(tools.clock.now());
		const row = {
			...own,
			workspace_id: workspaceId,
			...stored,
			takes: [...new Set(takes)],
			last_event_at: null,
			created_at,
			used_at: null,
			unreported_since: null,
		};
		await insertSmarthost(trx, row);
		return {row, token, secret: shown};
	},
	audit: 'smarthost.added',
	entry: ({row: {id: target, provider, takes}}) => ({target, detail: {provider, takes}}),
});

/** Gives it another URL and another secret, or the secret alone; the former ones are refused from now on. */
export const rotateSmarthost = operation({
	...manages,
	name: 'smarthost rotate',
	without: {apply},
	input: Type.Object(
		{
			id,
			secret,
			keep_url: Type.Optional(Type.Boolean({description: 'True: only the secret changes.'})),
		},
		{additionalProperties: false, examples: [{}]},
	),
	async run(
		context: OperationContext<string | null>,
		{id: wanted, secret: given, keep_url = false},
	): Promise<NewSmarthost> {
		const {trx, workspaceId} = context;
		const row = (await findSmarthost(trx, workspaceId, wanted)) ?? notFound('smarthost', wanted);
		const {token, secret: shown, stored} = await credentials(context, row, given);
		const changes = keep_url ? {secret: stored.secret} : stored;
		await updateSmarthost(trx, wanted, changes);
		return {row: {...row, ...changes}, token: keep_url ? null : token, secret: shown};
	},
	audit: 'smarthost.rotated',
	entry: ({row: {id: target, provider}}) => ({target, detail: {provider}}),
});

export const removeSmarthost = operation({
	...manages,
	name: 'smarthost remove',
	without: {apply},
	input: Type.Object({id}),
	async run({trx, workspaceId}: OperationContext<string | null>, {id: wanted}): Promise<Smarthost> {
		const row = (await findSmarthost(trx, workspaceId, wanted)) ?? notFound('smarthost', wanted);
		await deleteSmarthost(trx, wanted);
		return row;
	},
	audit: 'smarthost.removed',
	entry: ({id: target, provider}) => ({target, detail: {provider}}),
});
