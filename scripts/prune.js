// Removes from dist what tsc made of sources that are gone: a test that moved would run in its former place too.
import {existsSync, readdirSync, rmSync} from 'node:fs';

for (const root of ['src', 'migrations', 'test'].filter(name => existsSync(`dist/${name}`))) {
	// Only tsc writes maps there.
	for (const map of readdirSync(`dist/${root}`, {recursive: true}).filter(file => file.endsWith('.js.map'))) {
		if (!existsSync(`${root}/${map.replace(/\.js\.map$/, '.ts')}`)) {
			rmSync(`dist/${root}/${map}`);
			rmSync(`dist/${root}/${map.replace(/\.map$/, '')}`, {force: true});
		}
	}
}
