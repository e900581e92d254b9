import {duration, future, label, mode, rateLimit, scope} from '../../cli/options.ts';
import type {CliCommand} from '../../cli/program.ts';
import type {Session} from '../../cli/session.ts';
import {type Noun, shortTime} from '../../cli/terminal-text.ts';
import {storeTime} from '../../kit/time.ts';
import type {Scope} from '../../mail/api-key.ts';
import type {Mode} from '../../mail/message.ts';
import {notFound} from '../operation.ts';
import {type CreatedKey, createKey, revokeKey, rotateKey} from './rules.ts';
import {type ApiKey, listApiKeys} from './store.ts';

type CreateOptions = {name: string; mode: Mode; scope?: Scope[]; rateLimit?: string; expires?: number};

const day = 86_400_000;

export function keyCommands(key: CliCommand): void {
	key.verb('create', 'Create a key and show it once')
		.sample('mailctl key create --name app --scope messages:send')
		.requiredOption('--name <name>', 'its purpose', label('--name'))
		.option('--mode <mode>', 'live, or test, which sends nothing', mode, 'live')
		.option(
			'--scope <scope>',
			'permissions, repeatable or separated by commas; default: all but messages:submit, for a test key messages:send and read scopes',
			scope,
		)
		.option('--rate-limit <n/s>', 'sends per number of seconds; 0 is no limit', rateLimit)
		.option('--expires <time>', 'when it expires: a duration or an RFC 3339 time', future('--expires'))
		.does<CreateOptions>(async (session, options) => {
			const {name, mode: keyMode, scope: own, rateLimit: rate_limit, expires} = options;
			const expires_at = expires === undefined ? null : storeTime(expires);
			const input = {name, mode: keyMode, ...(own && {scopes: [...new Set(own)]}), expires_at};
			showKey(session, await session.perform(createKey, {...input, ...(rate_limit && {rate_limit})}));
		});

	key.verb('list', 'List keys, newest first')
		.sample('mailctl key list')
		.does(async session => {
			const {reader, workspaceId} = await session.inWorkspace();
			session.list(keysAt(storeTime(session.tools.clock.now())), await listApiKeys(reader, workspaceId));
		});

	key.verb('revoke <id>', 'Revoke a key immediately')
		.sample('mailctl key revoke key_06f…')
		.does<object, [string]>(async (session, _options, text) => {
			const id = (await session.idOf('key', text)) ?? notFound('key', text);
			const revoked = await session.perform(revokeKey, {id});
			const now = storeTime(session.tools.clock.now());
			session.show(keysAt(now).json(revoked), () => [`revoked ${revoked.id} (${revoked.name})`]);
		});

	key.verb('rotate <id>', 'Replace a key; the old one expires later')
		.sample('mailctl key rotate key_06f… --overlap 24h')
		.option('--overlap <duration>', 'how long the old key stays valid; default 24h', duration('--overlap'))
		.does<{overlap?: number}, [string]>(async (session, {overlap = day}, text) => {
			const id = (await session.idOf('key', text)) ?? notFound('key', text);
			showKey(session, await session.perform(rotateKey, {id, overlap}));
		});
}

function stateOf(row: ApiKey, now: string): string {
	if (row.revoked_at !== null) {
		return 'revoked';
	}
	return row.expires_at !== null && row.expires_at <= now ? 'expired' : row.mode;
}

/** The noun for keys, with their state at a time in the store's format. */
const keysAt = (now: string): Noun<ApiKey> => ({
	none: 'no keys; create one with mailctl key create',
	json: row => ({
		id: row.id,
		name: row.name,
		mode: row.mode,
		scopes: row.scopes,
		hint: row.hint,
		rate_limit: row.rate_limit,
		active: row.revoked_at === null && (row.expires_at === null || row.expires_at > now),
		expires_at: row.expires_at,
		revoked_at: row.revoked_at,
		last_used_at: row.last_used_at,
		created_at: row.created_at,
	}),
	fields: [
		{title: 'ID', name: 'id', cell: row => row.id, id: true},
		{title: 'NAME', name: 'name', cell: row => row.name, cut: true},
		{title: 'KEY', cell: row => `${row.hint}…`, cut: true},
		{title: 'STATE', cell: row => stateOf(row, now)},
		{title: 'LAST USED', cell: row => shortTime(row.last_used_at).slice(0, 16)},
		{name: 'mode', cell: row => row.mode},
		{name: 'scopes', cell: row => row.scopes.join(' ')},
		{name: 'rate limit', cell: row => row.rate_limit ?? 'as MAILCTL_RATE_LIMIT'},
		{name: 'expires', cell: row => row.expires_at && `${shortTime(row.expires_at)} UTC`},
	],
});

function showKey(session: Session, {row, key}: CreatedKey): void {
	const lines = ['', session.terminal.bold(key), '', 'Store it now: it is not shown again.'];
	session.one(keysAt(storeTime(session.tools.clock.now())), row, {json: {key}, lines});
}
