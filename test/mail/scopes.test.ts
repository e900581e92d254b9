import test from 'ava';
import {scopes, usualScopes} from '../../src/mail/scopes.ts';

test('a key that names no scope: a live one may do all but submit by SMTP, a test one sends and reads', t => {
	t.deepEqual(
		usualScopes('live'),
		scopes.filter(scope => scope !== 'messages:submit'),
	);
	t.deepEqual(
		[...usualScopes('test')],
		[
			'messages:send',
			...['messages:read', 'suppressions:read', 'unsubscribe_groups:read', 'webhooks:read', 'templates:read'],
			...['senders:read', 'contacts:read', 'usage:read'],
		],
	);
	for (const mode of ['live', 'test'] as const) {
		t.true(usualScopes(mode).every(scope => scopes.includes(scope)));
	}
});
