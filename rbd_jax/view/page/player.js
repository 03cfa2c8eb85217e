// Curves over time under the slider.

const INKS = ["#3b6fb6", "#c8553d", "#4a9a6a", "#8a5fb0", "#c99a2e", "#4aa3a8", "#7a7f87", "#b0507f"];

function drawCurve(canvas, { label, lines }, motion) {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight, pen = canvas.getContext("2d");
  canvas.width = ratio * width, canvas.height = ratio * height;
  pen.scale(ratio, ratio);
  let low = Infinity, high = -Infinity;
  for (const { values } of lines) for (const y of values) if (Number.isFinite(y)) low = Math.min(low, y), high = Math.max(high, y);
  if (!(high >= low)) low = 0, high = 0;
  const middle = (low + high) / 2, half = Math.max((high - low) / 2, 1e-6 * Math.abs(middle), 1e-9);
  const span = motion.end - motion.start || 1, across = (t) => (width * (t - motion.start)) / span;
  const up = (y) => 18 + (height - 22) * (0.5 - (0.5 * (y - middle)) / half);
  pen.font = "11px system-ui, sans-serif";
  pen.fillStyle = "#5a5f66";
  pen.fillText(label, 2, 11);
  let at = pen.measureText(label).width + 14;
  lines.forEach(({ label: name, values }, k) => {
    pen.strokeStyle = pen.fillStyle = INKS[k % INKS.length];
    if (at < width - 120 && lines.length > 1) pen.fillText(name, at, 11), (at += pen.measureText(name).width + 10);
    pen.beginPath();
    let on = false;
    for (let i = 0; i < values.length; i++) {
      if (Number.isFinite(values[i])) pen[on ? "lineTo" : "moveTo"](across(motion.t[i]), up(values[i]));
      on = Number.isFinite(values[i]);
    }
    pen.stroke();
  });
  pen.fillStyle = "#5a5f66";
  pen.textAlign = "right";
  const told = (y) => (Math.abs(y) >= 1e4 || (y && Math.abs(y) < 1e-3) ? y.toExponential(1) : +y.toPrecision(3));
  pen.fillText(`${told(low)} to ${told(high)}`, width - 2, 11);
}

// All of it together. Scripts and tests find it as window.player.

const SPEEDS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10];
const SHOWS = { f: "frames", s: "sites", m: "mass", c: "contacts", v: "forces", g: "ghosts" };
const $ = (name) => document.getElementById(name);

class Player {
  constructor(recording) {
    this.recording = recording;
    this.motions = recording.samples.map((sample) => new Motion(sample, recording.bodies.length));
    this.canvas = $("canvas");
    this.playing = false;
    this.drawn = 0; // frames so far
    this.recent = []; // when the last of them were drawn
    this.speed = recording.speed;
    this.camera = new Camera(this.canvas, recording.camera, () => this.changed());
    this.renderer = new Renderer(this.canvas, recording);
    this.canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
    this.canvas.addEventListener("webglcontextrestored", () => {
      this.renderer = new Renderer(this.canvas, recording);
      this.changed();
    });
    this.setUp();
    this.choose(recording.sample);
    this.time = this.motion.start;
    if (recording.play && this.motion.last > this.motion.start) this.play();
    new ResizeObserver(() => this.resized()).observe(this.canvas);
  }

  // What can be asked and told.

  get sample() { return this.motion.number; }
  get samples() { return this.motions.map((motion) => motion.number); }
  get failure() { return this.motion.failure; }
  get framesPerSecond() {
    const [first, last] = [this.recent[0], this.recent.at(-1)];
    return this.recent.length > 1 ? (1000 * (this.recent.length - 1)) / (last - first) : 0;
  }
  bodyPose(name) {
    const body = this.recording.bodies.indexOf(name);
    if (body < 0) throw new Error(`there is no body ${name}; the bodies are ${this.recording.bodies.join(", ")}`);
    return this.motion.pose(body, this.motion.at(this.time));
  }
  // Where a point of the world is on the canvas, in its pixels from the upper left.
  project(point) {
    const [x, y, z] = add(turned(this.recording.up, point), this.camera.target, -1), m = this.camera.view;
    const [a, b, , w] = [0, 1, 2, 3].map((i) => m[i] * x + m[4 + i] * y + m[8 + i] * z + m[12 + i]);
    return [(0.5 + (0.5 * a) / w) * this.canvas.clientWidth, (0.5 - (0.5 * b) / w) * this.canvas.clientHeight];
  }
  seek(time) {
    this.time = clamp(time, this.motion.start, this.motion.last);
    this.changed();
  }
  play() {
    if (this.time >= this.motion.last) this.time = this.motion.start;
    this.playing = true;
    this.before = null;
    this.recent = [];
    this.since = 0;
    this.changed();
  }
  pause() {
    this.playing = false;
    this.changed();
  }
  step(frames) {
    this.pause();
    const [row, share] = this.motion.at(this.time), { t } = this.motion;
    const here = share > 0.999 ? row + 1 : share > 0.001 && frames < 0 ? row + 1 : row;
    this.seek(t[clamp(here + frames, 0, t.length - 1)]);
  }
  choose(number) {
    this.motion = this.motions[this.samples.indexOf(Number(number))];
    $("sample").value = this.sample;
    this.curves = this.motion.curves.map((curve) => this.addCurve(curve));
    $("curves").replaceChildren(...this.curves.map(({ box }) => box));
    const { start, last, end, failure } = this.motion;
    $("slider").min = start, $("slider").max = end;
    $("failed").hidden = !failure;
    $("failed").style.width = `${(100 * (end - last)) / (end - start || 1)}%`;
    $("failed").title = $("told").textContent = failure || "";
    $("times").hidden = end <= start;
    for (const name of ["speeding", "looping"]) $(name).hidden = end <= start;
    this.time = clamp(this.time ?? start, start, last);
    this.resized();
  }

  // The controls.

  setUp() {
    const { recording } = this, option = (value, text) => new Option(text, value);
    const shows = {
      frames: true, sites: recording.sites.length, mass: recording.masses.some((m) => m > 0),
      contacts: this.motions.some((motion) => motion.pushes), forces: this.motions.some((motion) => motion.pushes), ghosts: recording.ghosts.length,
    };
    this.shows = {};
    for (const [name, there] of Object.entries(shows)) {
      document.querySelector(`[data-shows=${name}]`).hidden = !there;
      this.shows[name] = $(name).checked = Boolean(there) && recording.shows.includes(name);
      $(name).addEventListener("change", () => this.toggle(name, $(name).checked));
    }
    $("sample").replaceChildren(...this.samples.map((number) => option(number, number)));
    $("sampling").hidden = this.samples.length < 2;
    $("sample").addEventListener("change", () => this.choose($("sample").value));
    const speeds = [...new Set([...SPEEDS, this.speed])].sort((a, b) => a - b);
    $("speed").replaceChildren(...speeds.map((speed) => option(speed, `${speed} ×`)));
    $("speed").value = this.speed;
    $("speed").addEventListener("change", () => (this.speed = Number($("speed").value)));
    $("loop").checked = recording.loop;
    const follow = [option("", "stays"), option("whole", "follows"), ...recording.bodies.map((name, body) => option(body, `follows ${name}`))];
    $("follow").replaceChildren(...follow);
    $("follow").value = recording.follow;
    $("follow").addEventListener("change", () => this.changed());
    $("play").addEventListener("click", () => (this.playing ? this.pause() : this.play()));
    $("slider").addEventListener("input", () => {
      this.pause();
      this.seek(Number($("slider").value));
    });
    $("helping").addEventListener("click", () => ($("help").hidden = !$("help").hidden));
    for (const control of document.querySelectorAll("#panel select, #panel input[type=checkbox], #panel button"))
      control.addEventListener(control.tagName === "BUTTON" ? "click" : "change", () => this.canvas.focus());
    $("scale").textContent = recording.grounds.length ? `grid: ${recording.cell >= 1 ? `${recording.cell} m` : `${+(100 * recording.cell).toPrecision(3)} cm`}` : "";
    window.addEventListener("keydown", (event) => this.pressed(event));
  }

  toggle(name, on = !this.shows[name]) {
    if (!document.querySelector(`[data-shows=${name}]`).hidden) this.shows[name] = $(name).checked = on;
    this.changed();
  }

  pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
    const { key } = event, many = event.shiftKey ? 10 : 1, beside = (list, value, by) => list[clamp(list.indexOf(value) + by, 0, list.length - 1)];
    const actions = {
      " ": () => (this.playing ? this.pause() : this.play()),
      ArrowLeft: () => this.step(-many), ArrowRight: () => this.step(many),
      Home: () => this.seek(this.motion.start), End: () => this.seek(this.motion.last),
      "+": () => this.hasten(1), "=": () => this.hasten(1), "-": () => this.hasten(-1),
      l: () => ($("loop").checked = !$("loop").checked),
      t: () => (($("follow").value = $("follow").value ? "" : "whole"), this.changed()),
      r: () => this.camera.reset(),
      h: () => $("helping").click(), "?": () => $("helping").click(),
      "[": () => this.choose(beside(this.samples, this.sample, -1)), "]": () => this.choose(beside(this.samples, this.sample, 1)),
    };
    const lower = key.length === 1 ? key.toLowerCase() : key;
    const action = actions[lower] || (SHOWS[lower] && (() => this.toggle(SHOWS[lower])));
    if (!action) return;
    event.preventDefault();
    action();
  }

  hasten(by) {
    const options = [...$("speed").options].map((option) => Number(option.value));
    $("speed").value = this.speed = options[clamp(options.indexOf(this.speed) + by, 0, options.length - 1)];
  }

  addCurve(curve) {
    const box = document.createElement("div"), canvas = document.createElement("canvas"), cursor = document.createElement("div");
    box.className = "curve";
    box.append(canvas, cursor);
    const seek = (event) => {
      if (!event.buttons) return;
      this.pause();
      this.seek(this.motion.start + ((this.motion.end - this.motion.start) * event.offsetX) / box.clientWidth);
    };
    box.addEventListener("pointerdown", seek);
    box.addEventListener("pointermove", seek);
    return { box, canvas, cursor, curve };
  }

  resized() {
    for (const { canvas, curve } of this.curves ?? []) drawCurve(canvas, curve, this.motion);
    this.changed();
  }

  // Frames.

  changed() {
    this.scheduled ??= requestAnimationFrame((now) => {
      this.scheduled = null;
      this.frame(now);
    });
  }

  frame(now) {
    clearTimeout(this.settling);
    if (this.playing) {
      // A page that was out of sight goes on where it was.
      this.time += this.before === null ? 0 : (this.speed * Math.min(now - this.before, 250)) / 1000;
      this.before = now;
      if (this.time >= this.motion.last) {
        if ($("loop").checked) this.time = this.motion.start;
        else (this.time = this.motion.last), (this.playing = false);
      }
      this.recent.push(now);
      if (this.recent.length > 60) this.recent.shift();
      this.keepUp();
    }
    this.draw(false);
    this.drawn += 1;
    const { start, end, last, failure } = this.motion;
    $("slider").value = this.time;
    $("clock").textContent = `${this.time.toFixed(end - start < 1 ? 3 : 2)} / ${end.toFixed(end - start < 1 ? 3 : 2)} s`;
    $("play").textContent = this.playing ? "❚❚" : "▶";
    $("told").style.opacity = failure && this.time < last ? 0.45 : 1;
    for (const { cursor } of this.curves) cursor.style.left = `${(100 * (this.time - start)) / (end - start || 1)}%`;
    if (this.playing) this.changed();
    else if (this.renderer.few || this.renderer.sharpness < 1) this.settling = setTimeout(() => this.draw(true), 200);
  }

  // Where drawing is slow, fewer pixels are drawn.
  keepUp() {
    const enough = 20, took = this.recent.at(-1) - this.recent.at(-1 - enough);
    this.since += 1; // frames of this sharpness
    if (this.since <= enough || took < (1000 * enough) / 27 || this.renderer.sharpness < 0.5) return;
    this.renderer.sharpness *= 0.8;
    this.since = 0;
  }

  draw(fine) {
    const { recording, motion, time, camera } = this, { up } = recording;
    const world = { position: [0, 0, 0], quaternion: up };
    const posed = (one) => {
      const at = one.at(clamp(time, one.start, one.last));
      const upright = ({ position, quaternion }) => ({ position: turned(up, position), quaternion: turnedBy(up, quaternion) });
      return [world, ...recording.bodies.map((_, body) => upright(one.pose(body, at)))];
    };
    const poses = posed(motion);
    const ghosts = this.shows.ghosts ? this.motions.filter(({ number }) => recording.ghosts.includes(number) && number !== this.sample) : [];
    this.followed(poses);
    const marks = new Triangles(), { size } = recording;
    // Marks are in the frame of the world.
    if (this.shows.mass) marks.ball(this.centerOfMass(), 0.12 * size, [0.95, 0.75, 0.1, 1]);
    if (motion.pushes && (this.shows.contacts || this.shows.forces)) {
      const [row, share] = motion.at(time), { point, force, first } = motion.pushes, now = share > 0.5 ? row + 1 : row;
      for (let i = first[now]; i < first[now + 1]; i++) {
        const place = point.subarray(3 * i, 3 * i + 3), along = scaled(force.subarray(3 * i, 3 * i + 3), recording.newton);
        if (this.shows.contacts) marks.ball(place, 0.06 * size, [0.85, 0.3, 0.2, 1]);
        if (this.shows.forces && norm(along) > 1e-2 * size) marks.arrow(place, along, 0.04 * size, [0.85, 0.3, 0.2, 1]);
      }
    }
    this.renderer.render(camera, [poses, ...ghosts.map(posed)], marks, this.shows, fine);
  }

  centerOfMass() {
    const at = this.motion.at(this.time);
    let sum = [0, 0, 0], total = 0;
    this.recording.masses.forEach((mass, body) => {
      const { position, quaternion } = this.motion.pose(body, at);
      sum = add(sum, add(position, turned(quaternion, this.recording.centers[body])), mass);
      total += mass;
    });
    return scaled(sum, 1 / total);
  }

  // The camera goes along with what it follows, from where that was when it began to.
  followed(poses) {
    const what = $("follow").value;
    const now = what === "" ? null : what === "whole" ? this.motion.whole(this.motion.at(this.time)) : poses[Number(what) + 1].position;
    if (now && this.following === what) this.camera.moved = add(this.camera.moved, add(now, this.from, -1));
    this.following = what;
    this.from = now;
  }
}

try {
  window.player = new Player(JSON.parse($("recording").textContent));
} catch (error) {
  $("told").textContent = error.message;
  throw error;
}
