"""Collects freely licensed sounds to train on: one folder for each source, and two tables.

    python sounds.py POOL [--mirrors MIRRORS] [--esc50 ESC50] [--avoid CLOTHO.csv ...]

POOL       gets deb/PACKAGE/..., git/OWNER+NAME/..., own/NAME/..., files.csv (source, path) and sources.csv (source,
           url, licence, files). Sources that are already there are kept
--mirrors  folder of bare git repositories, MIRRORS/OWNER+NAME/repo, to read instead of cloning from GitHub
--esc50    ESC-50 as a folder of recordings and esc50.csv: folds 1 and 2 become the source `esc50`, the other folds are
           not used
--avoid    Clotho's metadata: sounds with one of its Freesound numbers in their file names are left out, as are those
           with a number of ESC-50's other folds

Debian packages are downloaded with `apt-get download` (section main of bookworm), which needs no root. Repositories
with an unclear licence, or with non-commercial sounds among others, are not in the list. Of Delta-v, only files are
used whose entry in attributions.yml is CC0, CC BY, CC BY-SA or MIT; of Precise-Community-Data, only files named in a
waiver. Needs git, apt-get, dpkg-deb and tar.
"""
import argparse
import csv
import hashlib
import os
import random
import re
import shutil
import subprocess
import zipfile

import imageio_ffmpeg

import synthetic

AUDIO = (".ogg", ".oga", ".wav", ".mp3", ".flac", ".opus", ".aif", ".aiff", ".au", ".m4a")
ARCHIVES = (".zip", ".pk3", ".pk4", ".jar", ".mpk", ".wz", ".scs")
TRAINED_FOLDS = ("1", "2")

# Data of games and of programs for learning, sound themes, drum kits, spoken prompts.
PACKAGES = """
0ad-data 7kaa-data a7xpg-data abe-data amoebax-data amphetamine-data ardour-data asterisk-core-sounds-en-wav
asterisk-core-sounds-es-wav asterisk-core-sounds-fr-wav asterisk-core-sounds-it-wav asterisk-core-sounds-ru-wav
asterisk-moh-opsound-wav asterisk-prompt-it-menardi-wav atanks-data berusky2-data biloba-data blinken blobby-data
bomber boswars-data brainparty-data briquolo-data btanks-data bucklespring-data bumprace-data burgerspace bzflag-data
caveexpress-data cavepacker-data ceferino-data chromium-bsu-data cinnamon-common circuslinux-data
colobot-common-sounds cube2-data deepin-sound-theme dodgindiamond2 dreamchess-data dustracing2d-data
eiskaltdcpp-sounds endless-sky-data enigma-data epiphany-data extremetuxracer-data fillets-ng-data fillets-ng-data-cs
fillets-ng-data-nl flare-game flightgear-data-base foobillardplus-data freecol freedroid-data freedroidrpg-data
freegish-data freeorion-data fretsonfire-songs-muldjord fretsonfire-songs-sectoid frozen-bubble-data funnyboat gajim
gamine-data garden-of-coloured-lights-data gbrainy geki2 geki3 gigalomania-data gl-117-data glob2-data gltron
gnome-control-center-data gnome-nibbles gnome-robots gnubg-data gnujump-data granatier gunroar-data hedgewars-data
heroes-sound-effects hex-a-hop-data holotz-castle-data hydrogen-data hydrogen-drumkits iagno instead-data kanagram
kapman kbounce kgoldrunner klick kmousetool kolf kollision kpat krank ksirk ktuberling-data lbreakout2-data
lbreakouthd-data lincity-ng-data linphone-common lmms-common lomiri-sounds lordsawar-data ltris lugaru-data
manaplus-data marsshooter-data mate-media-common megaglest-data meritous-data miceamaze minetest-data mirrormagic-data
monsterz-data moon-lander-data mu-cade-data netpanzer-data nexuiz-data njam-data noiz2sa-data oneisenough
open-invaders-data openarena-081-misc openarena-081-players openarena-data opencity-data openssn-data overgod-data
oxygen-sounds pachi-data parsec47-data pathological penguin-command phlipple-data pidgin-data pinball-data pingus-data
pipewalker planetblupi-common planetblupi-music-ogg plee-the-bear-data pokerth-data powermanga-data psi-plus-sounds
pyracerz pysiogame quadrapassel raincat-data redeclipse-data renpy-demo renpy-thequestion ri-li-data rrootage-data
scorched3d-data searchandrescue-data simutrans-pak64 singularity-music slimevolley-data solfege sound-icons
sound-theme-freedesktop spacearyarya starfighter-data starvoyager-data stormbaancoureur-data supertransball2-data
supertux-data supertuxkart-data tecnoballz-data toppler torcs-data torus-trooper-data trackballs-data
trigger-rally-data triplea tumiki-fighters-data tuxmath-data tuxpaint-data tuxpaint-plugins-default
tuxpaint-stamps-default tuxtype-data twinkle-common tworld-data ufoai-sound unknown-horizons val-and-rick-data vodovod
vor warmux-data warzone2100-data wesnoth-1.16-data wesnoth-1.16-music widelands-data wing-data wizznic-data
wordwarvi-sound workrave-data xboard xmoto-data yaru-theme-sound zaz-data
""".split()

# Licence as the repository states it, pattern of paths to take, most files to take.
REPOSITORIES = {
    "rafaelmardojai/blanket": ("CC0, CC BY, CC BY-SA, public domain (SOUNDS_LICENSING.md)", "sounds/", 50),
    "luizhenrique07/relaxing-sounds": ("CC BY 3.0 (about.md)", "", 20),
    # Its curtains are CC BY-NC.
    "Fris0uman/CDDA-Soundpacks": ("CC0, CC BY (credits.md of each folder)", "^(?!.*curtain)", 500),
    "DeltaV-Station/Delta-v": ("CC0, CC BY, CC BY-SA, MIT (attributions.yml for each file)", "Resources/Audio/", 1500),
    "PolarisSS13/Polaris": ("CC BY-SA 3.0", "sound/", 1000),
    "arianne/stendhal": ("GPL-2.0+", "sound|music", 500),
    "veloren/veloren": ("GPL-3.0", "", 500),
    "xonotic/xonotic-data.pk3dir": ("GPL-2.0+", "", 400),
    "VoxeLibre/VoxeLibre": ("GPL-3.0+, CC BY-SA", "", 400),
    "runsy/petz": ("GPL-3.0, CC0, CC BY (sounds/LICENSE.MD)", "", 150),
    "AntumMT/mod-sounds": ("CC0, CC BY 3.0 (sources.md)", "", 700),
    "RedundantC/wis_part1": ("CC0, CC BY 3.0 (sources.md)", "", 400),
    "OpenRCT2/OpenSoundEffects": ("CC0", "", 50),
    "OpenTTD/OpenSFX": ("CC BY-SA 3.0", "", 100),
    "OpenDungeons/OpenDungeons": ("GPL-3.0, CC BY, CC BY-SA, CC0", "", 120),
    "ValyriaTear/ValyriaTear": ("GPL, CC BY, CC BY-SA, CC0 (LICENSES)", "", 130),
    "naev/naev-artwork-production": ("GPL-3.0, CC BY-SA, CC BY, CC0 (SOUND_LICENSE.yaml)", "", 220),
    "stuntrally/stuntrally": ("GPL-3.0", "", 80),
    "freedoom/freedoom": ("BSD-3-Clause", "", 120),
    "thomasrosen/berlin_noise": ("CC BY 4.0", "", 120),
    "hsbakshi/ambient-engine": ("public domain, CC BY 4.0 (ATTRIBUTION.md)", "", 20),
    "jtgsystems/modern-alarm-clock": ("CC0 (docs/soundscape-assets.md)", "", 20),
    "MycroftAI/Precise-Community-Data": ("public domain (waivers in licenses/)", "^(?!heysavant)", 250),
    "gveres/donateacry-corpus": ("ODbL 1.0", "", 457),
    "Jakobovski/free-spoken-digit-dataset": ("CC BY-SA 4.0", "", 80),
    "soerenab/AudioMNIST": ("MIT", "", 250),
    "nbrosowsky/tonejs-instruments": ("CC BY 3.0", "", 350),
    "sgossner/VSCO-2-CE": ("CC0", "", 500),
    "sonic-pi-net/sonic-pi": ("CC0 (etc/samples)", "etc/samples/", 250),
}

OWN = {
    "esc50": ("CC0, CC BY for each clip (folds 1 and 2)", "https://github.com/karolpiczak/ESC-50"),
    "espeak": ("own, spoken by espeak-ng (synthetic.py)", ""),
    "synthetic": ("own (synthetic.py)", ""),
}


def unpack(folder):
    """Takes the sound files out of archives below `folder` and removes the archives."""
    for base, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(base, name)
            if name.lower().endswith(ARCHIVES):
                try:
                    with zipfile.ZipFile(path) as archive:
                        for entry in archive.namelist():
                            if entry.lower().endswith(AUDIO):
                                archive.extract(entry, path + ".d")
                except (zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError) as error:
                    print(f"cannot unpack {path}: {error}")
                os.remove(path)


def collect_package(package, target):
    """Sound files, archives and the copyright file of a Debian package."""
    download = target + ".tmp"
    os.makedirs(download, exist_ok=True)
    done = subprocess.run(["apt-get", "download", package], cwd=download, capture_output=True, text=True)
    if done.returncode == 0:
        os.makedirs(target)
        deb = os.path.join(download, os.listdir(download)[0])
        patterns = ["*" + ending for ending in AUDIO + ARCHIVES] + ["copyright"]
        reader = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE)
        # tar fails for patterns that match nothing, which is no error here.
        subprocess.run(["tar", "-x", "-C", target, "--ignore-case", "--no-anchored", "--wildcards", *patterns],
                       stdin=reader.stdout, stderr=subprocess.DEVNULL)
        unpack(target)
    else:
        print(f"cannot download {package}: {done.stderr.strip()}")
    shutil.rmtree(download)


def package_licence(folder):
    """The licences that the package's copyright file names; old files do so in prose."""
    path = next((os.path.join(base, "copyright") for base, _, names in os.walk(folder) if "copyright" in names), None)
    if path is None:
        return "Debian main"
    with open(path, errors="replace") as f:
        text = f.read()
    found = dict.fromkeys(line.strip() for line in re.findall(r"(?mi)^License:[ \t]*(\S.*)$", text))
    if not found:
        prose = {"GPL": "General Public License|GPL", "BSD": "BSD|Redistribution and use in source",
                 "CC": "Creative Commons", "public domain": "public domain", "MIT": "Permission is hereby granted"}
        found = [f"{name} (in prose)" for name, pattern in prose.items() if re.search(pattern, text, re.I)]
    return "Debian main: " + ", ".join(found)[:200]


def git(repository, *arguments):
    return subprocess.run(["git", "-C", repository, *arguments], capture_output=True).stdout


def attributed(repository, paths):
    """Paths whose entry in their folder's attributions.yml names a free licence."""
    free = set()
    for folder in {os.path.dirname(path) for path in paths}:
        text = git(repository, "show", f"HEAD:{folder}/attributions.yml").decode(errors="replace")
        for entry in re.split(r"(?m)^- ", text):
            licence = re.search(r"license:\s*\"?([\w.-]+)", entry)
            if licence and re.match(r"(CC0|CC-BY-(SA-)?\d|MIT)", licence.group(1)):
                names = re.findall(r"[\w .()'-]+\.(?:ogg|wav|mp3)", entry.split("copyright")[0])
                free.update(f"{folder}/{name.strip()}" for name in names)
    return [path for path in paths if path in free]


def waived(repository, paths):
    """Paths whose file name stands in one of the waivers."""
    named = set(git(repository, "grep", "-h", "-I", "wav", "HEAD", "--", "licenses").decode(errors="replace").split())
    return [path for path in paths if os.path.basename(path) in named]


CHECKS = {"DeltaV-Station/Delta-v": attributed, "MycroftAI/Precise-Community-Data": waived}


def collect_repository(name, target, mirrors):
    _, pattern, most = REPOSITORIES[name]
    clone = target + ".git"
    if mirrors:
        repository = os.path.join(mirrors, name.replace("/", "+"), "repo")
    else:
        repository = clone
        subprocess.run(["git", "clone", "--quiet", "--bare", "--depth", "1", f"https://github.com/{name}", clone])
    if not os.path.isdir(repository):
        print(f"cannot read {name}: no repository at {repository}")
        return
    paths = git(repository, "ls-tree", "-r", "-z", "--name-only", "HEAD").decode(errors="replace").split("\0")
    paths = [path for path in paths if path.lower().endswith(AUDIO) and re.search(pattern, path)]
    if name in CHECKS:
        paths = CHECKS[name](repository, paths)
    random.Random(1).shuffle(paths)
    for path in paths[:most]:
        data = git(repository, "show", "HEAD:" + path)
        if len(data) > 500:  # shorter ones are pointers to large files
            os.makedirs(os.path.join(target, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(target, path), "wb") as f:
                f.write(data)
    shutil.rmtree(clone, ignore_errors=True)


def convert(folder):
    """AAC, which libsndfile does not read, becomes FLAC."""
    for base, _, names in os.walk(folder):
        for name in names:
            if name.lower().endswith(".m4a"):
                path = os.path.join(base, name)
                subprocess.run([imageio_ffmpeg.get_ffmpeg_exe(), "-loglevel", "error", "-y", "-i", path,
                                path[:-4] + ".flac"], stdin=subprocess.DEVNULL)
                os.remove(path)


def link_esc50(esc50, target):
    """Links the clips of the trained folds; returns the Freesound numbers of the others."""
    os.makedirs(target, exist_ok=True)
    others = set()
    with open(os.path.join(esc50, "esc50.csv"), newline="") as f:
        for row in csv.DictReader(f):
            link = os.path.join(target, row["filename"])
            if row["fold"] not in TRAINED_FOLDS:
                others.add(row["filename"].split("-")[1])
            elif not os.path.lexists(link):
                os.symlink(os.path.join(os.path.abspath(esc50), row["filename"]), link)
    return others


def clotho_numbers(path):
    with open(path, newline="", encoding="latin-1") as f:
        return {row["sound_id"] for row in csv.DictReader(f) if row["sound_id"].isdigit() and len(row["sound_id"]) > 3}


def write_tables(pool, avoid):
    """Lists all sound files but copies of others and those with a number of `avoid` in their names."""
    seen, sources = set(), []
    with open(os.path.join(pool, "files.csv"), "w", newline="") as f:
        files = csv.writer(f)
        files.writerow(["source", "path"])
        for kind in ("deb", "git", "own"):
            for source in sorted(os.listdir(os.path.join(pool, kind))):
                folder, kept = os.path.join(pool, kind, source), 0
                for base, _, names in sorted(os.walk(folder)):
                    for name in sorted(names):
                        path = os.path.join(base, name)
                        if not name.lower().endswith(AUDIO) or not os.path.exists(path) or os.path.getsize(path) < 600:
                            continue
                        if source != "esc50" and avoid & set(re.findall(r"\d{3,7}", name)):
                            continue
                        with open(path, "rb") as sound:
                            digest = hashlib.file_digest(sound, "md5").digest()
                        if digest not in seen:
                            seen.add(digest)
                            files.writerow([source, os.path.relpath(path, pool)])
                            kept += 1
                if kept:
                    sources.append([source, *url_and_licence(kind, source, folder), kept])
    with open(os.path.join(pool, "sources.csv"), "w", newline="") as f:
        table = csv.writer(f)
        table.writerow(["source", "url", "licence", "files"])
        table.writerows(sources)
    print(f"{len(sources)} sources, {sum(row[-1] for row in sources)} files")


def url_and_licence(kind, source, folder):
    if kind == "deb":
        return "https://packages.debian.org/bookworm/" + source, package_licence(folder)
    if kind == "git":
        name = source.replace("+", "/", 1)
        return "https://github.com/" + name, REPOSITORIES[name][0]
    licence, url = OWN[source]
    return url, licence


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pool")
    parser.add_argument("--mirrors")
    parser.add_argument("--esc50")
    parser.add_argument("--avoid", nargs="*", default=[])
    args = parser.parse_args()
    for kind in ("deb", "git", "own"):
        os.makedirs(os.path.join(args.pool, kind), exist_ok=True)
    for package in PACKAGES:
        target = os.path.join(args.pool, "deb", package)
        if not os.path.isdir(target):
            collect_package(package, target)
    for name in REPOSITORIES:
        target = os.path.join(args.pool, "git", name.replace("/", "+"))
        if not os.path.isdir(target):
            collect_repository(name, target, args.mirrors)
    convert(args.pool)
    synthetic.speech(os.path.join(args.pool, "own", "espeak"))
    synthetic.events(os.path.join(args.pool, "own", "synthetic"))
    avoid = {number for path in args.avoid for number in clotho_numbers(path)}
    if args.esc50:
        avoid |= link_esc50(args.esc50, os.path.join(args.pool, "own", "esc50"))
    write_tables(args.pool, avoid)


if __name__ == "__main__":
    main()
