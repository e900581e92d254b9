import test from 'ava';
import {matchesHost} from '../../src/deliver/host.ts';

test('a name matches itself, a wildcard exactly one label', t => {
	t.true(matchesHost('mx.example.test', 'mx.example.test'));
	t.true(matchesHost('*.example.test', 'mx.example.test'));
	for (const [pattern, host] of [
		['mx.example.test', 'mx2.example.test'],
		['mx.example.test', 'a.mx.example.test'],
		['*.example.test', 'a.mx.example.test'],
		['*.example.test', 'example.test'],
		['*.example.test', 'mxexample.test'],
		['*.example.test', 'mx.example.test.evil.test'],
		['*.test', 'test'],
		['example.test', 'mx.example.test'],
	] as const) {
		t.false(matchesHost(pattern, host), `${pattern} ${host}`);
	}
});
