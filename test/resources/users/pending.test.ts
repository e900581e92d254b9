import test from 'ava';
import {Pending} from '../../../src/resources/users/sessions.ts';
import {testTools, testVault} from '../../helpers/tools.ts';

test('a value can be taken once, whatever is attempted in between', t => {
	const pending = new Pending<string>(testVault, testTools().clock, 'test');
	const sealed = pending.seal('challenge');
	t.is(pending.take(sealed), 'challenge');
	for (let n = 0; n < 10_001; n++) {
		t.is(pending.take(`junk ${n}`), undefined);
	}
	for (const spelling of [
		sealed,
		`${sealed}=`,
		` ${sealed}`,
		`${sealed}\n`,
		sealed.replaceAll('-', '+').replaceAll('_', '/'),
	]) {
		t.is(pending.take(spelling), undefined);
	}
});
