// Removes tsc's output for deleted sources from dist. Otherwise a moved test would also run in its old location.
import {existsSync, readdirSync, rmSync} from 'node:fs';

for (const root of ['src', 'migrations', 'test'].filter(name => existsSync(`dist/${name}`))) {
	// Only tsc writes source maps there.
	for (const map of readdirSync(`dist/${root}`, {recursive: true}).filter(file => file.endsWith('.js.map'))) {
		if (!existsSync(`${root}/${map.replace(/\.js\.map$/, '.ts')}`)) {
			rmSync(`dist/${root}/${map}`);
			rmSync(`dist/${root}/${map.replace(/\.map$/, '')}`, {force: true});
		}
	}
}
