import test from 'ava';
import {pino} from 'pino';
import {watchForStoreFaults} from '../../src/daemon/store-faults.ts';
import {newStore} from '../helpers/databases.ts';
import {waitFor} from '../helpers/wait.ts';

test('treats SQLITE_IOERR on a full disk as a temporary failure, not as damage', async t => {
	const store = await newStore(t, 'sqlite');
	const faults = watchForStoreFaults(store, pino({enabled: false}), () => true);
	t.teardown(faults.stop);
	faults.failed(Object.assign(new Error('COMMIT; - SQLITE_IOERR: disk I/O error'), {code: 'SQLITE_IOERR'}));
	t.true(faults.failing());
	await waitFor('it can be written', () => !faults.failing());
	t.true(store.dialect.isDamage({code: 'SQLITE_IOERR'}, false));
	t.true(store.dialect.isDamage({code: 'SQLITE_CORRUPT'}, true));
});
