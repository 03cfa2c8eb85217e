// From where it is looked at: turned and moved by the mouse, by fingers, and by what it follows.

class Camera {
  constructor(canvas, { angle, aspect, ...first }, changed) {
    this.canvas = canvas;
    this.changed = changed;
    this.height = 2 * Math.tan(angle / 2); // of the picture, one away
    this.aspect = aspect; // narrower pictures are higher, so that as much is in them
    this.first = first;
    this.moved = [0, 0, 0]; // by what it follows
    this.reset();
    this.pointers = new Map();
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, event);
    });
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, (event) => this.pointers.delete(event.pointerId));
    canvas.addEventListener("pointermove", (event) => this.drag(event));
    canvas.addEventListener("contextmenu", (event) => event.preventDefault());
    canvas.addEventListener("dblclick", () => this.reset());
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(0.001 * clamp(event.deltaY * (event.deltaMode ? 30 : 1), -300, 300)));
    }, { passive: false });
  }

  get back() {
    const { azimuth: a, elevation: e } = this;
    return [Math.cos(e) * Math.cos(a), Math.cos(e) * Math.sin(a), Math.sin(e)];
  }
  get target() { return add(this.aim, this.moved); }
  get eye() { return add(this.target, this.back, this.distance); }
  get right() { return [-Math.sin(this.azimuth), Math.cos(this.azimuth), 0]; }

  get size() {
    const { clientWidth, clientHeight } = this.canvas;
    const aspect = clientWidth / Math.max(clientHeight, 1), height = this.height * Math.max(1, this.aspect / Math.max(aspect, 0.1));
    return { aspect, height };
  }

  // From places relative to the target to the picture.
  get view() {
    const { aspect, height } = this.size, far = Math.max(1e3 * this.first.distance, 20 * this.distance);
    const seen = lookingAlong(this.back, [0, 0, 1], scaled(this.back, this.distance));
    return times(perspective(height, aspect, this.distance / 100, far), seen);
  }

  reset() {
    const { target, ...angles } = this.first;
    Object.assign(this, angles, { aim: target });
    this.changed();
  }
  turn(x, y) {
    this.azimuth -= x, this.elevation = clamp(this.elevation + y, -1.57, 1.57);
    this.changed();
  }
  pan(x, y) {
    const size = (this.size.height * this.distance) / Math.max(this.canvas.clientHeight, 1);
    this.aim = add(add(this.aim, this.right, -size * x), cross(this.back, this.right), size * y);
    this.changed();
  }
  zoom(factor) {
    this.distance = clamp(this.distance * factor, this.first.distance / 200, this.first.distance * 50);
    this.changed();
  }

  drag(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before) return;
    const x = event.clientX - before.clientX, y = event.clientY - before.clientY;
    if (this.pointers.size > 1) {
      const other = [...this.pointers.values()].find((one) => one.pointerId !== event.pointerId);
      const apart = (one) => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY) || 1;
      this.zoom(apart(before) / apart(event));
      this.pan(x / 2, y / 2);
    } else if (event.buttons & 6 || event.shiftKey || event.ctrlKey) this.pan(x, y);
    else this.turn(0.008 * x, 0.008 * y);
    this.pointers.set(event.pointerId, event);
  }
}
