import test, {type ExecutionContext} from 'ava';
import {watchFreeSpace} from '../../src/daemon/store-faults.ts';

function watched(t: ExecutionContext, least = 1000) {
	const disk = {free: async () => 0};
	const changes: boolean[] = [];
	const noted = ({event}: {event: string}) => void changes.push(event === 'disk_recovered');
	const space = watchFreeSpace(
		() => disk.free(),
		() => least,
		{info: noted, error: noted} as never,
	);
	t.teardown(space.stop);
	return {
		space,
		changes,
		disk,
		async see(bytes: number) {
			disk.free = async () => bytes;
			await space.check();
			return space.hasEnough();
		},
	};
}

test('reports a full disk below the limit, until a tenth above it is free', async t => {
	const {see, changes} = watched(t);
	t.true(await see(1000));
	t.false(await see(999));
	t.false(await see(1000));
	t.false(await see(1099));
	t.true(await see(1100));
	t.true(await see(1000));
	t.deepEqual(changes, [false, true]);
});

test('a limit of 0 never reports a full disk', async t => {
	t.true(await watched(t, 0).see(0));
});

test('keeps the last value if the system reports none, and queries a hanging one only once', async t => {
	const {space, disk, see} = watched(t);
	t.false(await see(1));
	disk.free = () => Promise.reject(new Error('ENOSYS'));
	await space.check();
	t.false(space.hasEnough());
	t.is(space.free(), 1);
	let asked = 0;
	let answer = (_: number) => {};
	disk.free = () => {
		asked++;
		return new Promise(resolve => {
			answer = resolve;
		});
	};
	const looks = [space.check(), space.check()];
	answer(5000);
	await Promise.all(looks);
	t.is(asked, 1);
	t.true(space.hasEnough());
});
