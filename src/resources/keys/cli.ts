import {future, rateLimit} from '../../cli/options.ts';
import type {CliCommand} from '../../cli/program.ts';
import type {Session} from '../../cli/session.ts';
import {type Noun, shortTime} from '../../cli/terminal-text.ts';
import {listVerb, operationVerb} from '../../cli/verbs.ts';
import {storeTime} from '../../kit/time.ts';
import {type CreatedKey, createKey, revokeKey, rotateKey} from './rules.ts';
import {type ApiKey, listApiKeys} from './store.ts';

export function keyCommands(key: CliCommand): void {
	operationVerb(key, createKey, {
		sample: 'mailctl key create --name app --scope messages:send',
		parsers: {rate_limit: rateLimit, expires_at: text => storeTime(future('--expires')(text))},
		shows: showKey,
	});
	listVerb(key, 'List keys, newest first', keys, listApiKeys);
	operationVerb(key, revokeKey, {
		by: 'id',
		kind: 'key',
		sample: 'mailctl key revoke key_06f…',
		shows(session, revoked) {
			session.show(keys(session).json(revoked), () => [`revoked ${revoked.id} (${revoked.name})`]);
		},
	});
	operationVerb(key, rotateKey, {
		by: 'id',
		kind: 'key',
		sample: 'mailctl key rotate key_06f… --overlap 24h',
		shows: showKey,
	});
}

function stateOf(row: ApiKey, now: string): string {
	if (row.revoked_at !== null) {
		return 'revoked';
	}
	return row.expires_at !== null && row.expires_at <= now ? 'expired' : row.mode;
}

const keys = ({tools}: Session): Noun<ApiKey> => keysAt(storeTime(tools.clock.now()));

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
	session.printRow(keys(session), row, {json: {key}, lines});
}
