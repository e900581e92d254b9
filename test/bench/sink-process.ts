import {startFakeMx} from '../helpers/fake-mx.ts';

// A sink in a process of its own: takes everything, keeps nothing, tells its port, then how much it took.
const sink = await startFakeMx(null, {countOnly: true});
process.send?.(sink.port);
process.on('message', () => process.send?.(sink.count()));
