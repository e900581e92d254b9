import type {ExecutionContext} from 'ava';
import {migrate} from '../../src/store/engine/migrate.ts';
import {openStore} from '../../src/store/store.ts';
import {type ApiOptions, startApi, type TestApi} from './api.ts';
import {newLocation} from './databases.ts';

/** Two servers of one PostgreSQL and one workspace, as on two machines. */
export async function startTwoNodes(
	t: ExecutionContext,
	options: ApiOptions = {},
): Promise<readonly [TestApi, TestApi]> {
	const location = await newLocation(t, 'postgres');
	const [one, other] = [await openStore(location), await openStore(location)];
	t.teardown(() => Promise.all([one.close(), other.close()]));
	await migrate(one.database);
	const first = await startApi(t, one, options);
	return [first, await startApi(t, other, {...options, like: first})];
}
