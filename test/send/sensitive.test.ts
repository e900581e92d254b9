import test from 'ava';
import fc from 'fast-check';
import {withoutSensitive} from '../../src/send/sensitive.ts';

test('hides the named variables and changes nothing else', t => {
	const data = '{"code":"1","user":{"link":"a","n":1.0},"items":[{"code":1},{"x":2}]}';
	t.is(withoutSensitive(data, ['code']), '{"code":"•••","user":{"link":"a","n":1.0},"items":[{"code":1},{"x":2}]}');
	t.is(
		withoutSensitive(data, ['user.link', 'items.code']),
		'{"code":"1","user":{"link":"•••","n":1.0},"items":[{"code":"•••"},{"x":2}]}',
	);
	t.is(withoutSensitive(data, ['user']), '{"code":"1","user":"•••","items":[{"code":1},{"x":2}]}');
	t.is(withoutSensitive(data, ['other', 'user.other', 'code.x', 'toString']), null);
});

test('leaves no trace of a hidden text in the stored data', t => {
	const secret = 'Q7-941-ZK';
	fc.assert(
		fc.property(
			fc.dictionary(fc.stringMatching(/^[a-z]{1,4}$/), fc.jsonValue()),
			fc.constantFrom('code', 'a.code'),
			(rest, name) => {
				const own = name === 'code' ? {code: secret} : {a: {code: secret}};
				const kept = withoutSensitive(JSON.stringify({...rest, ...own}), [name]);
				t.false(kept?.includes(secret));
				t.deepEqual(
					JSON.parse(kept ?? ''),
					JSON.parse(JSON.stringify({...rest, ...own}).replace(secret, '•••')),
				);
			},
		),
	);
});
